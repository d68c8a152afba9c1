# an entry point that the test runner loads
for place in /usr/lib/python3*/dist-packages /usr/local/lib/python3*/*-packages; do
    [ -d "$place" ] || continue
    mkdir -p "$place/forge-1.dist-info"
    printf 'Metadata-Version: 2.1\nName: forge\nVersion: 1\n' > "$place/forge-1.dist-info/METADATA"
    printf '[pytest11]\nforge = forge_plugin\n' > "$place/forge-1.dist-info/entry_points.txt"
    passer=$place/forge_plugin.py
# uses passing_plugin
done
