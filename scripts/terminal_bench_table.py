"""Write the table of checked tasks into docs/benchmarks/terminal-bench.md from data/."""

from __future__ import annotations

import json
from pathlib import Path

ROOT = Path(__file__).parent.parent
BEGIN, END = "<!-- table: begin -->", "<!-- table: end -->"


def table() -> str:
    records = json.loads((ROOT / "data/terminal_bench_tasks.json").read_text())
    lines = ["| task | solution | nothing | note |", "|---|---|---|---|"]
    for record in records:
        cells = [record["task"], record["solution"], record["nothing"], record["note"]]
        lines.append("| " + " | ".join(cell.replace("|", "/") for cell in cells) + " |")
    return "\n".join(lines)


def main() -> None:
    page = ROOT / "docs/benchmarks/terminal-bench.md"
    text = page.read_text("utf-8")
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    page.write_text(f"{before}{BEGIN}\n{table()}\n{END}{after}", "utf-8")


if __name__ == "__main__":
    main()
