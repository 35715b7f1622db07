"""Which way of shaping a size is measured with, and what the report says of it."""

from __future__ import annotations

import pytest

from nezha_tools.bench import shaping_choice, collective_report
from nezha_tools.bench.spec import BenchSpec
from nezha_tools.lab import shaping

GIGABIT = [10**9, 10**9]
SIZES = [4, 64 << 10, 512 << 10, 1 << 20, 64 << 20]


def test_sizes_that_buckets_flatter_are_measured_exactly() -> None:
    measured = shaping_choice.choose(BenchSpec(sizes=SIZES), 4, GIGABIT)
    assert [each.shaping for each in measured] == ["exact", "exact", "exact", "bulk", "bulk"]
    assert measured[0].flattery is None, "the buckets hold four bytes"
    assert measured[1].flattery > 0.1 and measured[4].flattery < 0.002
    assert all(each.flattery <= shaping_choice.MOST for each in measured if each.shaping == "bulk")


def test_the_share_is_that_of_the_traffic_and_not_of_the_tensor() -> None:
    # Two ranks send as much as the tensor each, four send one and a half times as much.
    two = shaping_choice.choose(BenchSpec(sizes=[1 << 20]), 2, [10**9])[0]
    four = shaping_choice.choose(BenchSpec(sizes=[1 << 20]), 4, [10**9])[0]
    bucket = shaping.default_burst(10**9, "bulk") * 1448 / 1514
    assert two.flattery == pytest.approx(bucket / (2**20 - bucket))
    assert four.flattery == pytest.approx(bucket / (1.5 * 2**20 - bucket))


def test_a_way_or_a_bucket_that_was_asked_for_is_kept() -> None:
    fixed = shaping_choice.choose(BenchSpec(sizes=SIZES), 4, GIGABIT, "bulk")
    assert {each.shaping for each in fixed} == {"bulk"} and fixed[1].flattery is None
    deep = shaping_choice.choose(BenchSpec(sizes=[64 << 20]), 4, GIGABIT, None, burst=16 << 20)
    assert deep[0].shaping == "exact" and deep[0].flattery > 0.1


def test_slow_rails_are_always_measured_exactly() -> None:
    measured = shaping_choice.choose(BenchSpec(sizes=[64 << 20]), 4, [200 * 10**6, 100 * 10**6])
    assert measured[0].shaping == "exact" and measured[0].flattery < 0.001


def test_neighbours_that_are_measured_alike_are_measured_together() -> None:
    measured = [shaping_choice.Measured(kind, 0.0) for kind in ("exact", "exact", "bulk", "exact")]
    calls = []

    def run(kind, sizes):
        calls.append((kind, sizes))
        return [f"{kind} {size}" for size in sizes]

    found = shaping_choice.in_parts([1, 2, 3, 4], measured, run)
    assert found == ["exact 1", "exact 2", "bulk 3", "exact 4"]
    assert calls == [("exact", [1, 2]), ("bulk", [3]), ("exact", [4])]


def test_the_footer_says_what_the_buckets_may_flatter() -> None:
    row = {"of_limit": 0.5, "wrong": 0, "busbw_gbps": 1.0}
    rows = [{**row, "size": 65536, "shaping": "exact", "flattery": 0.5},
            {**row, "size": 8 << 20, "shaping": "bulk", "flattery": 0.012}]
    footer = "\n".join(collective_report.footer_lines(rows, None))
    assert "exact for 64K; the token buckets may overstate by more than 10 %" in footer
    assert "bulk for 8M; the token buckets may overstate by 1.2 % at 8M" in footer
    assert "~ " in footer and collective_report._of_limit(rows[0]) == "50.0~"
    assert collective_report._of_limit(rows[1]) == "50.0"
