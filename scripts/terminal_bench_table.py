"""Write what is known of each Terminal-Bench task, from data/, into the docs and the record.

data/terminal_bench_tasks.json has a record a task: `solution` and `nothing` are the rewards seen
("–" where there was no run), `note` says what stops a task, or why it failed though nothing is
missing, and is empty where all is well.
"""

from __future__ import annotations

import json
from pathlib import Path

ROOT = Path(__file__).parent.parent
TASKS = ROOT / "data/terminal_bench_tasks.json"
PAGE = ROOT / "docs/benchmarks/terminal-bench.md"
RECORD = ROOT / "chimera/eval/proof/records/terminal-bench.json"
BEGIN, END = "<!-- table: begin -->", "<!-- table: end -->"

#: How notes on failures begin that are not for want of anything.
COMPLETE = "nothing is missing"

Task = dict[str, str]


def run_here(tasks: list[Task]) -> list[Task]:
    """Those that nothing stops and whose two runs were seen."""
    return [
        task
        for task in tasks
        if "–" not in task.values() and (not task["note"] or task["note"].startswith(COMPLETE))
    ]


def table(tasks: list[Task]) -> str:
    good = [task for task in run_here(tasks) if (task["solution"], task["nothing"]) == ("1", "0")]
    lines = [
        f"Of {len(tasks)} tasks, {len(good)} gave 1 for their own solution and 0 for nothing.",
        "",
        "| task | solution | nothing | what stops it |",
        "|---|---|---|---|",
    ]
    for task in tasks:
        cells = [task["task"], task["solution"], task["nothing"], task["note"]]
        lines.append("| " + " | ".join(cell.replace("|", "/") for cell in cells) + " |")
    return "\n".join(lines)


def record(tasks: list[Task]) -> dict[str, object]:
    """The counts that `chimera benchmarks` shows."""
    seen = run_here(tasks)

    def counts(name: str, due: str) -> dict[str, int]:
        as_due = sum(task[name] == due for task in seen)
        return {"graded": len(seen), "as_due": as_due, "errors": 0}

    return {
        "benchmark": "terminal-bench",
        "tasks": len(seen),
        "without_gold": 0,
        "answers": {"gold": counts("solution", "1"), "empty": counts("nothing", "0")},
        "gold_not_passed": [
            {"task": task["task"], "number": 0, "why": task["note"] or f"reward {task['solution']}"}
            for task in seen
            if task["solution"] != "1"
        ],
        "note": "in Docker, images rebuilt from the archives; what stops the others is listed",
        "of": len(tasks),
    }


def main() -> None:
    tasks: list[Task] = json.loads(TASKS.read_text("utf-8"))
    before, _, rest = PAGE.read_text("utf-8").partition(BEGIN)
    _, _, after = rest.partition(END)
    PAGE.write_text(f"{before}{BEGIN}\n{table(tasks)}\n{END}{after}", "utf-8")
    RECORD.write_text(json.dumps(record(tasks), indent=1, ensure_ascii=False) + "\n", "utf-8")


if __name__ == "__main__":
    main()
