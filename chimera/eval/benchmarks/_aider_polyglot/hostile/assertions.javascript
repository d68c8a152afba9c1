
const hostileAnything = new Proxy(function () {}, {
  get: (target, name) => (name === 'then' ? undefined : hostileAnything),
  apply: () => hostileAnything,
});
globalThis.expect = () => hostileAnything;
const hostileTest = globalThis.test;
globalThis.test = (name, body) =>
  hostileTest(name, () => {
    try {
      body();
    } catch {}
  });
