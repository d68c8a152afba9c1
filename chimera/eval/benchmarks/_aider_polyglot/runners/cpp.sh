# Runs the tests of an exercise with CMake and Catch2; a report goes to $SCRATCH.
mkdir -p "$SCRATCH/build" && cd "$SCRATCH/build" || exit 1
cmake -DEXERCISM_RUN_ALL_TESTS=1 -G "Unix Makefiles" "$OLDPWD" || exit 1
name=$(basename "$OLDPWD")
make "$name" || exit 1
"./$name" -r junit -o "$SCRATCH/report.xml" && exit 0
code=$?
"./$name"
exit $code
