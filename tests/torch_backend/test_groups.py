"""Groups, ends, deadlines and bad input; the cases are in cases_groups.py."""

from __future__ import annotations

import pytest

CASES = ["entry_point", "new_groups", "split_group", "split_leaves_out", "device_mesh", "destroyed",
         "aborted", "deadlines", "monitored_barrier", "late_for_a_barrier", "mismatch", "bad_input",
         "detail", "sequence_numbers", "profiled", "threads", "forked"]


@pytest.mark.parametrize("case", CASES)
def test_group(ranks, case):
    ranks.run("cases_groups", case)


@pytest.mark.parametrize("calls", [100, pytest.param(1000, marks=pytest.mark.long)])
def test_the_store_does_not_grow(ranks, calls):
    ranks.run("cases_groups", "store_keys", calls)
