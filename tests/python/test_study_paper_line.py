"""The command line of `nezha study paper`: what is refused, in one sentence."""

from __future__ import annotations

import pytest

from nezha_study.paper import command, evaluation
from nezha_tools.cli.errors import BenchError


def test_only_names_figures():
    assert [each.key for each in evaluation.chosen("table1, FIG5")] == ["fig5", "table1"]
    assert len(evaluation.chosen(None)) == len(evaluation.FIGURES) > 5
    with pytest.raises(BenchError, match="'fig12' is no figure; want some of fig5, border"):
        evaluation.chosen("fig5,fig12")


@pytest.mark.parametrize("text", ["", "1", "2,,4", "x", "17", "-2"])
def test_numbers_of_nodes(text):
    assert command.counts("6, 2,2") == [2, 6]
    with pytest.raises(BenchError, match="want numbers from 2 to 16"):
        command.counts(text)


def test_rates():
    assert command.megabits("1gbit") == 1000 and command.megabits("250mbit") == 250
    for text in ("none", "1500kbit"):
        with pytest.raises(BenchError, match="whole number of Mbit/s"):
            command.megabits(text)
