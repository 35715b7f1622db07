"""Collectives of torch.distributed give what Gloo gives; the cases are in cases_collectives.py."""

from __future__ import annotations

import pytest

CASES = ["all_reduce", "all_reduce_kinds", "non_contiguous", "coalesced", "broadcast", "reduce",
         "gathers", "scatters", "exchanges", "messages", "objects", "futures", "flushed_denormals",
         "waiting"]


@pytest.mark.parametrize("case", CASES)
def test_collective(ranks, case):
    ranks.run("cases_collectives", case)
