"""Write what is known of each Terminal-Bench task, from data/, into the docs and the record.

data/terminal_bench_tasks.json has a record a task: `solution` and `nothing` are the rewards seen
("–" where there was no run), `note` says what stops a task, or why it failed though nothing is
missing, and is empty where all is well. `verified` says where today's verifier ran the tests (apart
from the agent's container, or live in it); others were run when all tests ran in that container.
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


def verified(tasks: list[Task]) -> int:
    return sum("verified" in task for task in tasks)


def table(tasks: list[Task]) -> str:
    good = [task for task in run_here(tasks) if (task["solution"], task["nothing"]) == ("1", "0")]
    lines = [
        f"Of {len(tasks)} tasks, {len(good)} gave 1 for their own solution and 0 for nothing.",
        "",
        f"Of these, {verified(good)} with today's verifier, where the tests ran as the table says.",
        "",
        "| task | solution | nothing | verified | what stops it |",
        "|---|---|---|---|---|",
    ]
    for task in tasks:
        cells = [
            *(task[name] for name in ("task", "solution", "nothing")),
            task.get("verified", ""),
        ]
        cells.append(task["note"])
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
        "covers": f"task.yaml form, rebuilt images; {verified(seen)} with today's verifier, the "
        "others when tests ran in the agent's container",
    }


def main() -> None:
    tasks: list[Task] = json.loads(TASKS.read_text("utf-8"))
    before, _, rest = PAGE.read_text("utf-8").partition(BEGIN)
    _, _, after = rest.partition(END)
    PAGE.write_text(f"{before}{BEGIN}\n{table(tasks)}\n{END}{after}", "utf-8")
    RECORD.write_text(json.dumps(record(tasks), indent=1, ensure_ascii=False) + "\n", "utf-8")


if __name__ == "__main__":
    main()
