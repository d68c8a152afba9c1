# Runs the tests of an exercise with CMake and Catch2; a report goes to $SCRATCH.

# No macro of the answer's may have a name that the tests' code uses, or those of their library's
# macros that it comes to, nor may one of that library's be gone: asked of all that the tests
# include, before any of it is used.
# (What the library sees of its surroundings, CONFIG, shows in the others.)
macros() { g++ -std=c++17 -DEXERCISM_RUN_ALL_TESTS -E -dM -x c++ - 2>/dev/null | sort; }
# A file's code without the texts of literals, which macros do not reach (all of it with a raw one).
texts_out() {
    if grep -q 'R"' "$1"; then cat "$1"; else sed -E "s/\"([^\"\\\\]|\\\\.)*\"|'([^'\\\\]|\\\\.)'/ /g" "$1"; fi
}
# The words of the code in a file, and of those macros in another that they come to.
reached() {
    awk '
        function add(text, but,    count, each, i, words, known) {
            count = split(but, words, /[^A-Za-z0-9_]+/)
            for (i = 1; i <= count; i++) known[words[i]]
            count = split(text, each, /[^A-Za-z0-9_]+/)
            for (i = 1; i <= count; i++)
                if (!(each[i] in known) && !(each[i] in seen)) { seen[each[i]]; queue[++last] = each[i] }
        }
        FNR == NR { add($0, ""); next }
        {
            name = $2; sub(/\(.*/, "", name)
            parameters[name] = substr($2, length(name) + 1)
            body[name] = substr($0, index($0, $2) + length($2))
        }
        END {
            for (at = 1; at <= last; at++) {
                print queue[at]
                if (queue[at] in body) add(body[queue[at]], parameters[queue[at]])
            }
        }' "$1" "$2"
}
names() { awk '{ sub(/\(.*/, "", $2); print $2 }' | sort -u; }
mkdir -p "$SCRATCH/build" "$SCRATCH/macros" || exit 1
(
    here="$SCRATCH/macros" library='#include "test/catch.hpp"'
    grep -hE '^\s*#\s*(include|if|ifdef|ifndef|elif|else|endif)' ./*_test.cpp | macros > "$here/all"
    [ -s "$here/all" ] && [ -f test/catch.hpp ] || exit 0
    printf '%s\n' "$library" '#include <bits/stdc++.h>' | macros > "$here/known"
    grep -oE '^\s*#\s*define\s+\w+' test/catch.hpp | awk '{ print $NF }' | grep -v CONFIG > "$here/names"
    echo "$library" | macros | grep -wFf "$here/names" > "$here/library"
    grep -hvE '^\s*#\s*include' ./*_test.cpp |
        g++ -std=c++17 -fpreprocessed -dD -E -P -x c++ - 2>/dev/null > "$here/uncommented"
    [ -s "$here/uncommented" ] || cat ./*_test.cpp > "$here/uncommented"
    texts_out "$here/uncommented" > "$here/code"
    texts_out "$here/library" > "$here/inner"
    reached "$here/code" "$here/inner" | grep -v CONFIG | sort -u > "$here/words"
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
