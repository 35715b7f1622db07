"""`nezha bench messages` on real wires. Rates are low, so that the wires and not this machine's
processors are the limit; nothing is said about absolute times."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from conftest import child_env

pytestmark = pytest.mark.usefixtures("namespaces")


def bench(*arguments: str) -> "subprocess.CompletedProcess[str]":
    """`nezha bench messages ...`, to its end."""
    code = "import sys; from nezha_tools.main import main; sys.exit(main())"
    return subprocess.run([sys.executable, "-c", code, "bench", "messages", *arguments], env=child_env(),
                          text=True, capture_output=True, timeout=300)


# Each takes a job of its own; all of them are in the simulation.
POLICIES = ("pull", "random", "static", "local_dynamic_striped", "dynamic", "hybrid")


def test_policies_in_a_lab() -> None:
    done = bench("--policy", ",".join(POLICIES), "--mean", "32K", "--load", "0.3", "--nodes", "3",
                 "--rates", "20mbit,20mbit,20mbit", "--seconds", "1", "--json", "-")
    assert done.returncode == 0, done.stderr
    found = {row["policy"]: row for row in json.loads(done.stdout)["results"]}
    assert set(found) == set(POLICIES)
    for policy, row in found.items():
        assert row["wrong"] == 0 and row["messages"] > 30, policy
        assert row["messages"] == found["pull"]["messages"]  # all had the same to send
        assert row["p99_us"] >= row["median_us"] > 0 and sum(row["shares"]) == pytest.approx(1)
        # With three ranks and rails, every policy uses all of them.
        assert min(row["shares"]) > 0.1, policy


def test_static_needs_its_rails() -> None:
    done = bench("--policy", "static", "--nodes", "7")
    assert done.returncode == 2 and "needs 5 rails for 7 nodes" in done.stderr
