# Runs the tests of an exercise with jest; a report goes to $SCRATCH.
ln -sfn "$NODE_MODULES" node_modules || exit 1
exec node node_modules/jest/bin/jest.js ./* --colors=false --json \
    --outputFile="$SCRATCH/report.json" --cacheDirectory="$SCRATCH/jest" >/dev/null
