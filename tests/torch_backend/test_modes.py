"""Operations in torch's modes, and tensors that are only read; the cases are in cases_modes.py."""

from __future__ import annotations

import pytest


@pytest.mark.parametrize("name", ["none", "inference", "no_grad", "autocast", "anomaly", "profiler",
                                  "other_device"])
def test_mode(ranks, name):
    ranks.run("cases_modes", "mode", name)


@pytest.mark.parametrize("case", ["tensors_of_a_mode", "only_read"])
def test_tensors(ranks, case):
    ranks.run("cases_modes", case)
