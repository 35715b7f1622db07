"""A few of the upstream suites' tests; `make upstream` runs all of them, see tests/upstream."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest
from conftest import ROOT

UPSTREAM = ROOT / "tests" / "upstream"
# One of each kind, none of which needs the compiled part.
TESTS = ["test_DistributedDataParallelCPU", "test_all_gather_coalesced_simple",
         "test_all_reduce_full_group_product", "test_barrier_full_group", "test_broadcast",
         "test_ddp_create_graph", "test_gather_checks", "test_reduce_sum_twice", "test_scatter",
         "test_send_recv_with_tag", "test_static_graph_api_cpu"]


def run(environment, *command):
    finished = subprocess.run([sys.executable, *map(str, command)], cwd=ROOT, timeout=600,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              env={**os.environ, **environment})
    assert finished.returncode == 0, finished.stdout[-10000:]
    return finished.stdout


@pytest.mark.long
def test_of_torch(environment, tmp_path):
    pytest.importorskip("expecttest", reason="torch's suite needs it; make upstream installs it")
    results = tmp_path / "results.json"
    log = run({**environment, "BACKEND": "nezha", "WORLD_SIZE": "3"},
              UPSTREAM / "torch_suite.py", "--results", results, *TESTS)
    outcomes = json.loads(results.read_text())
    assert outcomes == dict.fromkeys(TESTS, "passed"), log[-10000:]


@pytest.mark.long
def test_of_torchft(environment):
    pytest.importorskip("torchft", reason="make upstream installs it")
    log = run(environment, "-m", "pytest", "-q", "-p", "no:cacheprovider",
              UPSTREAM / "torchft_suite.py")
    assert "22 passed" in log
