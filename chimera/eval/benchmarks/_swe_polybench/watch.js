// Loaded into every node process of the command by NODE_OPTIONS. The one that loads a runner keeps
// the account, and hides it from what it runs.
'use strict';
const place = process.env.CHIMERA_WATCH_JS;
if (place) {
  const Module = require('module');
  const fs = require('fs');
  const open = fs.openSync, write = fs.writeSync, text = JSON.stringify;
  let account = null;
  const tell = (event) => { if (account !== null) write(account, text(event) + '\n'); };
  const started = () => {
    if (account !== null) return;
    account = open(place, 'a', 0o600);
    delete process.env.CHIMERA_WATCH_JS;
    delete process.env.NODE_OPTIONS;
    tell({ started: true });
  };
  const known = new WeakSet();
  const watchMocha = (Runner) => {
    if (typeof Runner !== 'function' || known.has(Runner)) return;
    known.add(Runner);
    const emit = Runner.prototype.emit;
    Runner.prototype.emit = function (event, test) {
      if (event === 'start') started();
      if (event === 'pass' || event === 'fail') {
        tell({ [event]: typeof test.fullTitle === 'function' ? test.fullTitle() : test.title });
      }
      if (event === 'end') tell({ finished: true });
      return emit.apply(this, arguments);
    };
  };
  const watchJest = (library) => {
    const format = library.formatTestResults;
    if (typeof format !== 'function' || !process.argv.some((a) => a.startsWith('--json'))) {
      return library;
    }
    started();
    return Object.assign({}, library, {
      formatTestResults(...given) {
        const results = format.apply(this, given);
        for (const suite of results.testResults) {
          for (const test of suite.assertionResults) {
            const event = test.status === 'passed' ? 'pass' : 'fail';
            tell({ [event]: test.fullName });
            tell({ [event]: test.title });
          }
        }
        tell({ finished: true });
        return results;
      },
    });
  };
  const load = Module._load;
  Module._load = function (request, parent) {
    const loaded = load.apply(this, arguments);
    const from = (parent && parent.filename) || '';
    if (/(^|\/)runner(\.js)?$/.test(request) && /[\\/]mocha[\\/]/.test(from)) {
      started();
      watchMocha(loaded);
    }
    return request === '@jest/test-result' ? watchJest(loaded) : loaded;
  };
}
