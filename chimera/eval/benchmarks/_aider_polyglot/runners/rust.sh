# Runs the tests of an exercise with cargo. Each binary says its results in a file, since tests may
# print in the middle of those that it prints.
export CARGO_HOME="$SCRATCH/cargo" CARGO_TARGET_DIR="$SCRATCH/target"
cat > "$SCRATCH/run.sh" <<'END'
log="$1.log"
shift
rm -f "$log"
"$@" --logfile "$log"
code=$?
if [ -e "$log" ]; then
    cat "$log" >> "$(dirname "$log")/results"
    echo "end $code" >> "$(dirname "$log")/results"
fi
exit $code
END
exec cargo --config 'source.crates-io.replace-with="vendored"' \
    --config "source.vendored.directory=\"$VENDOR\"" \
    --config "target.'cfg(all())'.runner=['bash', '$SCRATCH/run.sh', '$SCRATCH/binary']" --offline \
    test --no-fail-fast --color=never -- --include-ignored
