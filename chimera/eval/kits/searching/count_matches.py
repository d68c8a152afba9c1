"""Run by `searching`: counts matches under limits of time and memory."""

import json
import re
import resource
import sys


def main() -> None:
    resource.setrlimit(resource.RLIMIT_CPU, (5, 5))
    resource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30))
    question = json.load(sys.stdin)
    try:
        expression = re.compile(question["pattern"], re.IGNORECASE)
    except (re.error, RecursionError, OverflowError) as error:
        json.dump(str(error), sys.stdout)
    else:
        texts = question["texts"]
        json.dump([sum(1 for _ in expression.finditer(text)) for text in texts], sys.stdout)


if __name__ == "__main__":
    main()
