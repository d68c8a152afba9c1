# Runs the tests of an exercise with CMake and Catch2; a report goes to $SCRATCH.

# No macro of the answer's may have a name that the tests use, or their library in its own macros,
# nor may one of these be gone: asked of all that the tests include, before any of it is used.
# (What the library sees of its surroundings, CONFIG, shows in the others.)
macros() { g++ -std=c++17 -DEXERCISM_RUN_ALL_TESTS -E -dM -x c++ - 2>/dev/null | sort; }
names() { awk '{ sub(/\(.*/, "", $2); print $2 }' | sort -u; }
mkdir -p "$SCRATCH/build" "$SCRATCH/macros" || exit 1
(
    here="$SCRATCH/macros" library='#include "test/catch.hpp"'
    grep -hE '^\s*#\s*(include|if|ifdef|ifndef|elif|else|endif)' ./*_test.cpp | macros > "$here/all"
    [ -s "$here/all" ] && [ -f test/catch.hpp ] || exit 0
    printf '%s\n' "$library" '#include <bits/stdc++.h>' | macros > "$here/known"
    grep -oE '^\s*#\s*define\s+\w+' test/catch.hpp | awk '{ print $NF }' | grep -v CONFIG > "$here/names"
    echo "$library" | macros | grep -wFf "$here/names" > "$here/library"
    cat ./*_test.cpp "$here/library" | grep -oE '\w+' | grep -v CONFIG | sort -u > "$here/words"
    {
        comm -23 "$here/all" "$here/known" | names | comm -12 - "$here/words"
        comm -23 "$here/library" "$here/all" | names | grep -xFf "$here/names"
    } > "$here/taken"
    [ -s "$here/taken" ] || exit 0
    echo "tampering: macros with names of the tests: $(sort -u "$here/taken" | tr '\n' ' ')"
    exit 1
) || exit 1

cd "$SCRATCH/build" || exit 1
cmake -DEXERCISM_RUN_ALL_TESTS=1 -G "Unix Makefiles" "$OLDPWD" || exit 1
name=$(basename "$OLDPWD")
make "$name" || exit 1
"./$name" -r junit -o "$SCRATCH/report.xml" && exit 0
code=$?
"./$name"
exit $code
