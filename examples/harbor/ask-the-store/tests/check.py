from pathlib import Path
from urllib.request import urlopen

assert Path("/app/cheapest.txt").read_text().strip() == "cup"
assert urlopen("http://store:8000/order").read() == b"cup"
