"""`nezha bench pieces` on real wires. Nothing is said about absolute times."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from conftest import child_env

pytestmark = pytest.mark.usefixtures("namespaces")


def bench(*arguments: str) -> "subprocess.CompletedProcess[str]":
    """`nezha bench pieces ...`, to its end."""
    code = "import sys; from nezha_tools.main import main; sys.exit(main())"
    return subprocess.run([sys.executable, "-c", code, "bench", "pieces", *arguments], env=child_env(),
                          text=True, capture_output=True, timeout=300)


WAYS = ("back to back", "asynchronous", "coalesced")


def test_pieces_in_a_lab() -> None:
    done = bench("--size", "256K", "--pieces", "4,64", "--nodes", "2", "--rates", "100mbit,50mbit",
                 "--iters", "5", "--json", "-")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert [(row["pieces"], row["way"]) for row in found["results"]] == [
        (1, "at once"), *((count, way) for count in (4, 64) for way in WAYS)]
    for row in found["results"]:  # all carried the whole vector over the wires, and none of it was wrong
        assert row["shaping"] == "exact"  # a bulk wire's buckets would hold a piece
        assert row["wrong"] == 0 and 0 < row["busbw_gbps"] < 1.2 * 0.15, row
        assert sum(rail["bytes"] for rail in row["rails"]) >= 2 * (256 << 10), row


def test_a_round_trip_for_every_element_is_slower_than_one() -> None:
    done = bench("--size", "4K", "--pieces", "1024", "--nodes", "2", "--rates", "100mbit", "--iters", "3",
                 "--json", "-")
    assert done.returncode == 0, done.stderr
    by_way = {row["way"]: row for row in json.loads(done.stdout)["results"]}
    assert by_way["back to back"]["at_once_by_this"] > 5  # of 1024 round trips, each as long as one
    assert all(row["wrong"] == 0 for row in by_way.values())


def test_pieces_that_are_not_equal_are_refused() -> None:
    done = bench("--size", "100", "--pieces", "16")
    assert done.returncode == 2 and "a multiple of 64 bytes" in done.stderr
