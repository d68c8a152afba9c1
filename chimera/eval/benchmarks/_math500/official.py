"""Drives the published math-verify in an interpreter that has it; see `OfficialGrader`."""

import json
import logging
import sys


def main() -> None:
    from math_verify import parse, verify

    logging.disable(logging.CRITICAL)
    settings = json.loads(sys.stdin.readline())
    for line in sys.stdin:
        answer = json.loads(line)
        gold = parse("$" + settings["gold"][answer["task"]] + "$")
        passed = verify(gold, parse("$\\boxed{" + answer["text"] + "}$"))
        print(json.dumps({"passed": bool(passed), "note": ""}), flush=True)


if __name__ == "__main__":
    main()
