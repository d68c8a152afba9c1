"""Whose words describe the bank's inner tools."""

from __future__ import annotations

import pytest

from chimera.errors import DatasetError
from chimera.eval.benchmarks._tau_bench.bank_texts import (
    Parameter,
    official_source,
    official_texts,
    own_texts,
)


def source(*, without="", more=""):
    """A file with every inner tool, laid out as a clone has them, in words of this test."""
    parts = ["raise SystemExit('parsed, never run')", "class Tools:"]
    for name, text in own_texts().items():
        if name == without:
            continue
        parts += ["    @is_discoverable_tool(Kind.WRITE)", f"    def {name}(self):"]
        parts += [f'        """Words about {name}.']
        if text.parameters:
            parts += ["", "        Args:"]
        for parameter, known in text.parameters.items():
            kind = known.kind if known.required else f"{known.kind}, optional"
            parts.append(f"            {parameter} ({kind}): words about {parameter}")
        parts += ["", "        Returns:", "            more words", '        """']
    return "\n".join([*parts, more])


def test_a_copy_of_the_source_is_parsed_and_never_run(tmp_path):
    clone = tmp_path / "src/tau2/domains/banking_knowledge"
    clone.mkdir(parents=True)
    (clone / "tools.py").write_text(source())
    data = tmp_path / "data/tau2/domains/banking_knowledge"
    data.mkdir(parents=True)

    found = official_texts(official_source(data))

    assert found.keys() == own_texts().keys()
    frozen = found["freeze_debit_card_3892"]
    assert frozen.description == "Words about freeze_debit_card_3892."
    assert frozen.parameters == {"card_id": Parameter("string", True, "words about card_id")}
    ordered = found["order_debit_card_5739"].parameters
    assert ordered["excess_replacement_fee"] == Parameter(
        "number", False, "words about excess_replacement_fee"
    )


def test_a_file_beside_the_data_will_do_and_none_is_none(tmp_path):
    assert official_source(tmp_path) is None
    (tmp_path / "tools.py").write_text(source())

    assert official_source(tmp_path) == tmp_path / "tools.py"


@pytest.mark.parametrize("content", [source(without="freeze_debit_card_3892"), "def broken("])
def test_a_source_that_does_not_fit_is_refused(tmp_path, content):
    file = tmp_path / "tools.py"
    file.write_text(content)

    with pytest.raises(DatasetError, match=r"tools\.py"):
        official_texts(file)
