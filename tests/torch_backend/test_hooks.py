"""Torch's hooks and optimizers over DDP learn what one process does; the cases are in cases_hooks.py."""

from __future__ import annotations

import pytest


@pytest.mark.parametrize("case", ["power_sgd", "of_half_precision", "zero_overlapped", "zero",
                                  "post_local_sgd", "joined"])
def test_hook(ranks, case):
    ranks.run("cases_hooks", case)
