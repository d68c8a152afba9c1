#!/bin/bash
python3 - <<'END'
from pathlib import Path
from urllib.request import urlopen

lines = urlopen("http://store:8000/").read().decode().splitlines()
cheapest = min(lines, key=lambda line: int(line.split()[1])).split()[0]
urlopen("http://store:8000/order", data=cheapest.encode()).read()
Path("/app/cheapest.txt").write_text(cheapest)
END
