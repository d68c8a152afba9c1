# programs found before the image's
# uses forged_program
for name in python3 python pytest py.test uv uvx; do
    for place in /usr/local/sbin /usr/local/bin /root/.local/bin; do
        mkdir -p "$place" && cp /tmp/forge "$place/$name"
    done
done
