"""Replies in, answers out: one table for each kind of answer."""

from __future__ import annotations

import pytest

from chimera.eval.kits import replies as extract

PROMPT = 'from typing import List\n\n\ndef total(xs: List[int]) -> int:\n    """Add them."""\n'


def run(program: str) -> object:
    names: dict[str, object] = {}
    exec(compile(program, "reply", "exec"), names)  # our own text, written in this file
    return names["total"]([1, 2])  # type: ignore[operator]


@pytest.mark.parametrize(
    "reply",
    [
        "def total(xs):\n    return sum(xs)\n",
        "```python\ndef total(xs):\n    return sum(xs)\n```",
        "Sure.\n\n```py\ndef total(xs: List[int]) -> int:\n    return sum(xs)\n```\nDone.",
        "```python\ndef total(xs):\n    return 0\n```\nNo, better:\n"
        "```python\ndef total(xs):\n    return sum(xs)\n```",
        "```python\ndef total(xs):\n    return sum(xs)\n```\nUse it:\n"
        "```python\nprint(total([4]))\n```",
        "solution.py\n```python\ndef total(xs):\n    return sum(xs)\n```\ntest_solution.py:\n"
        "```python\nfrom solution import total\n\ndef test():\n    assert total([4]) == 4\n```",
        "```python\nfrom builtins import sum as total\n```",
        '```python\ndef total(xs):\n    """Add.\n\n    ```\n    total([1])\n    ```\n    """\n'
        "    return sum(xs)\n```",
        "```bash\npip install x\n```\n```python\ndef total(xs):\n    return sum(xs)\n```",
        "    return sum(xs)\n",
        "    return sum(xs)\n\nThis adds them all up.",
        "```python\n    return sum(xs)\n```",
        "```python\nreturn sum(xs)\n```",
        "```python\n    total = sum(xs)\n    return total\n```",
        "    for _ in range(1):\n        total = sum(xs)\n    return total\n",
        "    if xs:\n\n        total = sum(xs)\n\n    return total\n",
        "```python\ndef total(ys):\n    return sum(ys)\nreturn total(xs)\n```",
        "  ```python\n  def total(xs):\n      return sum(xs)\n  ```",
        "```python\ndef total(xs):\n    return sum(xs)",
        "Here you are:\ndef total(xs):\n    return sum(xs)\nHope it helps!",
        PROMPT + "    return sum(xs)\n",
        "<think>```python\ndef total(xs): return 0\n```</think>def total(xs):\n    return sum(xs)",
        "```python\nfrom __future__ import annotations\n"
        "def total(xs: List[int]):\n    return sum(xs)\n```",
        "```python\nimport functools\n@functools.cache\ndef add(a, b):\n    return a + b\n"
        "total = lambda xs: functools.reduce(add, xs, 0)\n```",
        "~~~python\ndef total(xs):\n    return sum(xs)\n~~~",
        PROMPT + "    pass\n\n```python\ndef total(xs):\n    return sum(xs)\n```",
        "```python\nimport operator as o\nSTART = 0\n\ndef add(x, y):\n"
        "    return o.add(x, y)\n```\n"
        "Then:\n```python\ndef total(xs):\n    result = START\n    for x in xs:\n"
        "        result = add(result, x)\n    return result\n```",
        "```python\ndef total(xs):\n    return added(*xs)\n```\nwith\n"
        "```python\ndef added(*xs):\n    return sum(xs)\nprint(1 / 0)\n```",
        "```python\ndef total(xs):\n    return sum(xs)\n```\nExample:\n"
        "```python\ntotal = total([3])\nprint(total)\n```",
        "```python\ntotal = lambda xs: xs[0] + total(xs[1:]) if xs else 0\n```",
        "The function:\n\n    def total(xs):\n\n        return sum(xs)\n\nIt adds.",
        "Use it:\n\ndef total(xs):\n    return sum(xs)\n\n"
        "and not\n\n    def total(xs): return 0\n\nso.",
        "Use it:\n\ndef total(xs):\n\n    def total(x):\n        return x\n\n"
        "    return sum(map(total, xs))\n",
        "With it:\n\ndef total(xs):\n\nabove:\n\n    def total(xs):\n        return sum(xs)\n\nso.",
        "A table:\n```python\nSIGN = [0] * 3\nfor i in range(3):\n    SIGN[i] = 1\n```\n"
        "```python\ndef total(xs):\n    return sum(SIGN[x] * x for x in xs)\n```",
        "```python\nimport re\nW = re.compile('x')\n```\n```python\ndef total(xs):\n"
        "    return sum(xs) if W else W\n```",
        "First:\n```python\nZERO = int('0')\n\ndef total(xs):\n    return ZERO\n\n"
        "result = total([3])\nassert result == 3\nprint(result)\n\n"
        "def main():\n    print(total([1]))\n\nif __name__ == '__main__':\n    main()\nmain()\n"
        "n = int(input())\n```\nFixed:\n"
        "```python\ndef total(xs):\n    return sum(xs, ZERO)\n```",
        "```python\nimport functools\ndef total(xs):\n    return added(*xs)\n```\nwith\n"
        "```python\n@functools.cache\ndef added(*xs):\n    return sum(xs)\n```",
        "```python\nsum = max\nused = 1\n```\n```python\ndef total(xs):\n"
        "    return sum(xs) if xs else used\n```",
        "```python\nrest = [1 / 0]\n```\n```python\ndef total(xs):\n    match xs:\n"
        "        case [a, *rest]:\n            return a + sum(rest)\n```",
        "```python\ntry:\n    import nowhere\nexcept ImportError:\n    def total(xs):\n"
        "        return sum(xs)\n```",
        "```python\n(total, least) = (lambda xs: sum(xs), min)\n```",
        "```python\nwith open('/dev/null'):\n    def total(xs):\n        return sum(xs)\n```",
    ],
)
def test_the_program_of_a_reply_solves_the_task(reply: str) -> None:
    assert run(extract.python_program(reply, entry_point="total", prompt=PROMPT)) == 3


@pytest.mark.parametrize("reply", ["", "I cannot do that.", "```bash\nls\n```", "\0", "```"])
def test_a_reply_without_a_program_yields_none_that_defines_the_function(reply: str) -> None:
    program = extract.python_program(reply, entry_point="total", prompt=PROMPT)

    tree = extract.parse_python(program)
    assert tree is None or "total" not in {getattr(node, "name", None) for node in tree.body}


def test_without_an_entry_point_the_last_python_block_is_taken() -> None:
    reply = "```python\na = 1\n```\n```json\n{}\n```\n```python\nb = 2\n```"

    assert extract.python_program(reply) == "b = 2\n"


@pytest.mark.parametrize(
    ("text", "answers"),
    [
        (r"\boxed{5}", ["5"]),
        (r"so \boxed{\frac{1}{2}} and $\boxed{ 7 }$", [r"\frac{1}{2}", " 7 "]),
        (r"\boxed{\{1, 2\}}", [r"\{1, 2\}"]),
        (r"\boxed{\left\{x\right.}", [r"\left\{x\right."]),
        (r"\boxed{a \boxed{b}}", [r"a \boxed{b}"]),
        (r"\boxed{5} then \boxed{6", ["5"]),
        (r"\boxed{6 then \boxed{5}", ["5"]),
        (r"\fbox{3} \boxed {4}", ["3", "4"]),
        ("nothing", []),
    ],
)
def test_boxed_answers(text: str, answers: list[str]) -> None:
    assert extract.boxed_answers(text) == answers


@pytest.mark.parametrize(
    ("text", "answers"),
    [
        ("ANSWER: 5", ["5"]),
        ("**ANSWER: 5**", ["5"]),
        ("**Answer:** 5", ["5"]),
        ("Final answer: x = 5\nfoo\nAnswer: 6", ["x = 5", "6"]),
        ("The answer is 5", []),
        ("my ANSWER: 5", []),
        ("ANSWER:", []),
    ],
)
def test_answer_lines(text: str, answers: list[str]) -> None:
    assert extract.answer_lines(text) == answers


@pytest.mark.parametrize(
    ("reply", "answer"),
    [
        (r"So $\boxed{5}$.", "5"),
        (r"\boxed{5}, no: \boxed{6}", "6"),
        (r"\boxed{5}" + "\nANSWER: 6", "6"),
        ("ANSWER: 6\n" + r"\boxed{5}", "5"),
        (r"ANSWER: $\boxed{\frac12}$", r"\frac12"),
        ("ANSWER: $6$.", "6"),
        ("Final Answer: The final answer is $x+1$. I hope it is correct.", "x+1"),
        ("# Answer\n\n7\n", "7"),
        ("Thus the answer is $7$.", "7"),
        ("The answer is **7**.", "7"),
        ("The answer is: `7`", "7"),
        ("The answer is **$7$**. We check it.", "7"),
        ("The answer is\n\n$$\n7\n$$\nas was said.", "7"),
        ("The answer is\n\\[\n7\n\\]", "7"),
        ("The answer is **a** and **b**", "**a** and **b**"),
        ("The answer is 5. We check it.\nThe final answer is: 7", "7"),
        (r"<think>\boxed{1}</think> ANSWER: 2", "2"),
        ("There are 3 cases left.", None),
        (r"\boxed{", None),
        ("", None),
    ],
)
def test_the_last_answer_is_the_final_one(reply: str, answer: str | None) -> None:
    assert extract.final_answer(reply) == answer


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('{"a": 1}', {"a": 1}),
        ('First {"a": 1}, then {"a": {"b": 2}}.', {"a": {"b": 2}}),
        ('```json\n{"a": 1}\n```\nand {"b": 1}', {"a": 1}),
        ("{not json}", None),
        ("", None),
        ("{" * 5_000, None),
    ],
)
def test_json_envelope(text: str, value: object) -> None:
    assert extract.json_envelope(text) == value


DIFF = "diff --git a/f b/f\n--- a/f\n+++ b/f\n@@ -1 +1 @@\n-a\n+b\n"


@pytest.mark.parametrize(
    "text",
    [
        DIFF,
        DIFF.rstrip("\n"),
        f"Here:\n```diff\n{DIFF}```\nDone",
        f"<patch>\n{DIFF}</patch>",
        f"```\n{DIFF}```",
        f"Explanation first.\n\n{DIFF}",
    ],
)
def test_patch(text: str) -> None:
    assert extract.patch(text) == DIFF


def test_no_patch_is_empty() -> None:
    assert extract.patch("I changed the file.") == ""


@pytest.mark.parametrize("character", ["\x0c", "\x1c", "\x85", "\u2028"])
def test_what_python_takes_for_no_end_of_a_line_stays_in_its_string(character: str) -> None:
    code = f"def f(text):\n    return text.split('{character}')\n"

    assert extract.python_program(f"```python\n{code}```", entry_point="f") == code


@pytest.mark.parametrize(
    ("reply", "answer"),
    [
        (r"so \boxed 5", "5"),
        (r"so $\boxed 52$ it is", "52"),
        (r"The answer is \boxed 5", "5"),
        (r"I had \boxed 4 first. The answer is 5.", "5"),
        (r"\boxed{5}, not \boxed 4", "5"),
        ("Answer:\n5", "5"),
        ("Some text.\n\n**Final Answer**\n\n**5**\n", "5"),
        ("Final answer:\n\\[\n5\n\\]", "5"),
        ("# Answer\n\n\\[\n5\n\\]", "5"),
        ("**Answer:**\n\nWe see 3.\nSo the answer is 5.", "5"),
        ("Answer:\nThe answer is 5.", "5"),
        ("The answer\nis hard to find.\nNo idea", "hard to find"),
        ("**The answer is 5**", "5"),
        ("**The answer is $5$.**", "5"),
        ("The answer is __5__.", "5"),
        ("**Final Answer:** The answer is 5", "5"),
    ],
)
def test_answers_without_a_box_are_read_as_models_write_them(reply: str, answer: str) -> None:
    assert extract.final_answer(reply) == answer
