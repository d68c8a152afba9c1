from pathlib import Path

words = Path("/app/words.txt").read_text().split()
assert words == ["the", "and", "owl"], words
