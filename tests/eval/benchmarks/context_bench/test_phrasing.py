"""What counts as the expected name or number, and what is left to a judge."""

from __future__ import annotations

import pytest

from chimera.eval.benchmarks._context_bench.phrasing import decide, has_rule

QUESTION = "How many cars, vehicles or cats does the neighbor of the person own who owns the most?"
NAMES = ("Sarah Perez", "Linda Robbins", "Tammy Roberts", "Linda Robbinson")


@pytest.mark.parametrize(
    ("reply", "expected", "correct"),
    [
        ("Linda Robbins", "Linda Robbins", True),
        (" linda  robbins\n", "Linda Robbins", True),
        ("It is linda robbins.", "Linda Robbins", True),
        ("The answer is **Linda Robbins**.", "Linda Robbins", True),
        ("Linda Robbins, not Tammy Roberts", "Linda Robbins", True),
        ("Tammy Roberts has 3. Linda Robbins has 4. Answer: Linda Robbins", "Linda Robbins", True),
        ("Either Linda Robbins or Tammy Roberts", "Linda Robbins", False),
        ("not Linda Robbins", "Linda Robbins", False),
        ("It isn't Linda Robbins.", "Linda Robbins", False),
        ("Linda Robbinson", "Linda Robbins", False),
        ("Robbins", "Linda Robbins", False),
        ("I could not find it", "Linda Robbins", False),
        ("", "Linda Robbins", False),
        ("anything", "", False),
        ("Linda Robbins and Tammy Roberts both fit", "Linda Robbins", None),
        ("four", "4", True),
        ("4 cars", "4", True),
        ("There are 4 vehicles.", "4", True),
        ("14", "4", False),
        ("It is not 4.", "4", False),
        ("$145,315.33", "145315.33", True),
        ("145315", "145315.33", False),
        ("18", "18 records", True),
        ("no idea", "18 records", False),
        ("between 4 and 5", "4", None),
        ("thirty", "30", True),
        ("twenty-one", "21", None),
        ("two hundred", "200", None),
        ("4. No one else comes close.", "4", None),
        ("I double-checked this one. The total is 4.", "4", True),
        ("The total is 4. I double-checked this one.", "4", None),
        ("The neighbor of the person owns 4.", "4", True),
        ("4 billion", "4", None),
        ("4 1/2", "4", None),
        ("Negative 4", "4", None),
        ("4 squared", "4", None),
        ("The square root of 4", "4", None),
        ("≥4", "4", None),
        ("I stopped after 4 tool calls.", "4", None),
        ("Let me open file 4.", "4", None),
        ("4. I read 10 files.", "4", None),
        ("I read 10 files. There are 4.", "4", True),
        ("I read 10 files. There are 5.", "4", False),
        ("More than 4.", "4", None),
        ("4 is wrong.", "4", None),
        ("I cannot tell. Is it 4?", "4", None),
        (
            "I could not find out. It cannot be said whether it is Linda Robbins.",
            "Linda Robbins",
            None,
        ),
        (
            "Linda Robbins is the wrong answer; the right one is in none of the files.",
            "Linda Robbins",
            None,
        ),
        ("Anyone but Linda Robbins.", "Linda Robbins", None),
        ("I don't think it's Linda Robbins.", "Linda Robbins", None),
        ("I would not say that the answer is Linda Robbins", "Linda Robbins", None),
        ("Linda Robbins isn't it.", "Linda Robbins", None),
        ("Linda Robbins. That is incorrect.", "Linda Robbins", None),
        ("Either Linda Robbins or someone whose record was closed.", "Linda Robbins", None),
        ("The neighbor's name is Linda Robbins (pers-0042).", "Linda Robbins", True),
        ("Linda Robbins owns the most cats.", "Linda Robbins", True),
        ("Linda Robbins's brother", "Linda Robbins", None),
        ("The neighbor of Linda Robbins", "Linda Robbins", None),
        ("Linda Robbins came second.", "Linda Robbins", None),
        ("Linda Robbins has the fewest cats.", "Linda Robbins", None),
        ("Linda Robbins-Smith", "Linda Robbins", None),
        ("Mary Linda Robbins", "Linda Robbins", None),
        ("Linda Robbins?", "Linda Robbins", None),
        ("Let me open the file about Linda Robbins", "Linda Robbins", None),
        ("Linda Robbins has cats. The answer is her brother.", "Linda Robbins", None),
        ("Tammy Roberts does not fit. Linda Robbins.", "Linda Robbins", None),
        ("Cat", "Cat", True),
        ("It is a cat.", "Cat", None),
        ("bird", "Cat", None),
        ("Cat, Dog", "Cat, Dog", True),
        ("Dog and Cat", "Cat, Dog", None),
        ("There is no cat", "The household has a cat.", None),
        ("Everybody but Jo Ann Nobody", "Jo Ann Nobody", None),
        ("3", "3 cats and a dog", None),
        ("", "Cat", False),
        # other numbers, written so that they look alike
        ("1,4", "14", None),
        (".4", "4", False),
        ("$1138,439.16", "$138,439.16", False),
        ("2*2", "22", None),
        ("The answer is 2**2.", "22", None),
        ("2 * 11", "22", None),
        ("14/14 policies", "14", None),
        ("4!", "4", None),
        # right ones, written in other ways
        (r"The total balance is $\$138{,}439.16$", "$138,439.16", None),
        ("The total is USD138,439.16", "$138,439.16", None),
        ("The total is $138\u202f439.16", "$138,439.16", None),
        ("The total is 138.439,16", "$138,439.16", None),
        ("138.439", "138439", None),
        ("XIV", "14", None),
        ("There are no cats, 3 dogs", "0", None),
        ("She owns 3 cars, and a bird.", "1", None),
        ("The total is 3.", "0", False),
        ("The total is 138,438.16.", "$138,439.16", False),
        ("_The_ answer: **$138,439.16**.", "$138,439.16", True),
        # names
        ("The person is Linda Robbins' owner.", "Linda Robbins", None),
        ("The person is Linda Robbins'.", "Linda Robbins", None),
        ("The person is 'Linda Robbins'.", "Linda Robbins", True),
        ("All others are ruled out except Linda Robbins.", "Linda Robbins", None),
        ("Isn't it Linda Robbins?", "Linda Robbins", None),
        ("There is nobody who is not Linda Robbins.", "Linda Robbins", None),
        (
            "It is Linda Robbins, whether or not Tammy Roberts counts.",
            "Linda Robbins",
            None,
        ),
        ("Robbins, Linda", "Linda Robbins", None),
        ("pers-0042", "Linda Robbins", None),
        ("The answer is Sarah Perez.", "Sarah Perez", True),
        ("**Answer:** Sarah Perez", "Sarah Perez", True),
    ],
)
def test_phrasing(reply, expected, correct):
    decision = decide(reply, expected, NAMES, QUESTION)

    assert (None if decision is None else decision.correct) is correct


@pytest.mark.parametrize(
    ("expected", "known"),
    [("Linda Robbins", True), ("18 records", True), ("$5", True), ("Cat", False), ("1, 2", False)],
)
def test_what_a_rule_can_decide(expected, known):
    assert has_rule(expected, NAMES) is known
