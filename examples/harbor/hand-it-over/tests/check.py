from pathlib import Path

assert Path("/app/result/sorted.txt").read_text().split() == ["-2", "4", "30", "100"]
assert not Path("/app/numbers.txt").exists(), "more was handed over than the task says"
