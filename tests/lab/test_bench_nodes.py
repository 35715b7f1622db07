"""`nezha bench` with more nodes than this machine has processors."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import child_env

pytestmark = pytest.mark.usefixtures("namespaces")


@pytest.mark.parametrize("nodes", [8, 16])
def test_many_nodes_are_measured_on_one_machine(nodes: int, tmp_path: Path) -> None:
    file = tmp_path / "all.json"
    code = "import sys; from nezha_tools.main import main; sys.exit(main())"
    done = subprocess.run(
        [sys.executable, "-c", code, "bench", "all_reduce", "--nodes", str(nodes), "--rates", "1gbit",
         "-b", "64K", "-e", "64K", "--iters", "3", "-w", "1", "--no-gain", "--json", str(file)],
        env=child_env(), text=True, capture_output=True, timeout=300)
    assert done.returncode == 0, done.stderr
    document = json.loads(file.read_text())
    (capacity,) = document["config"]["lab"]["capacity"].values()
    assert capacity["asked_gbps"] == nodes and capacity["reached_gbps"] > 0
    (row,) = document["rows"]
    assert row["wrong"] == 0 and row["time_us"] > 0
