# Runs the tests of an exercise with cargo, which prints their results.
export CARGO_HOME="$SCRATCH/cargo" CARGO_TARGET_DIR="$SCRATCH/target"
exec cargo --config 'source.crates-io.replace-with="vendored"' \
    --config "source.vendored.directory=\"$VENDOR\"" --offline \
    test --no-fail-fast --color=never -- --include-ignored
