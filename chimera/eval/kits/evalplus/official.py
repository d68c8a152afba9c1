"""Drives the published evalplus in an interpreter that has it; see `OfficialGrader`."""

import json
import sys
from concurrent.futures import ThreadPoolExecutor


def main() -> None:
    from evalplus import data
    from evalplus.eval._special_oracle import MBPP_OUTPUT_NOT_NONE_TASKS
    from evalplus.evaluate import check_correctness, get_groundtruth

    settings = json.loads(sys.stdin.readline())
    out, sys.stdout = sys.stdout, sys.stderr
    if settings["dataset"] == "humaneval":
        known, key, not_none = data.get_human_eval_plus(), data.get_human_eval_plus_hash(), []
    else:
        known, key = data.get_mbpp_plus(), data.get_mbpp_plus_hash()
        not_none = MBPP_OUTPUT_NOT_NONE_TASKS
    problems = {name: known[name] for name in settings["tasks"]}
    truth = get_groundtruth(problems, f"{key}-{len(problems)}", not_none)

    def grade(line: str) -> dict[str, object]:
        answer = json.loads(line)
        found = check_correctness(
            settings["dataset"],
            0,
            problems[answer["task"]],
            answer["text"],
            truth[answer["task"]],
            base_only=settings["base_only"],
            fast_check=True,
            min_time_limit=settings["seconds"],
        )
        statuses = [found[kind][0] for kind in ("base", "plus") if kind in found]
        return {"passed": all(status == "pass" for status in statuses), "note": "/".join(statuses)}

    with ThreadPoolExecutor(settings["workers"]) as pool:
        for verdict in pool.map(grade, sys.stdin.read().splitlines()):
            print(json.dumps(verdict), file=out, flush=True)


if __name__ == "__main__":
    main()
