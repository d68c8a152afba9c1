#!/bin/sh
# Before the compiler of a C++ exercise: the test main is compiled already where it is the known one.
here=$(dirname "$0")
for argument; do source=$argument; done
case "$source" in
*/test/tests-main.cpp)
    if cmp -s "$source" "$here/tests-main.cpp" &&
        cmp -s "$(dirname "$source")/catch.hpp" "$here/catch.hpp"; then
        previous=
        for argument; do
            [ "$previous" = -o ] && cp "$here/tests-main.o" "$argument"
            [ "$previous" = -MF ] && : > "$argument"
            previous=$argument
        done
        exit 0
    fi ;;
esac
exec "$@"
