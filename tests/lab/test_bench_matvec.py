"""`nezha bench matvec` on real wires: both forms really run, and going by host sends less. Nothing is
said about times."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from conftest import child_env

pytestmark = pytest.mark.usefixtures("namespaces")


def test_flat_and_by_host_in_labs() -> None:
    code = "import sys; from nezha_tools.main import main; sys.exit(main())"
    done = subprocess.run(
        [sys.executable, "-c", code, "bench", "matvec", "--nodes", "1,2", "--ranks-per-node", "3",
         "--rows", "12", "--columns", "24K", "--rates", "100mbit", "--iters", "10", "--launches", "2",
         "--scaling", "strong", "--json", "-"], env=child_env(), text=True, capture_output=True,
        timeout=300)
    assert done.returncode == 0, done.stderr
    one, flat, by_host = json.loads(done.stdout)["results"]
    assert [(row["ranks"], row["form"]) for row in (one, flat, by_host)] == [
        (3, "by host"), (6, "flat"), (6, "by host")]
    assert all(row["wrong"] == 0 and len(row["launches"]) == 2 for row in (one, flat, by_host))
    assert all(0 < row["gather_us"] < row["iteration_us"] for row in (one, flat, by_host))
    assert by_host["algorithms"] == ["hierarchical"]
    assert not {"hierarchical", "leaders"} & set(flat["algorithms"] + one["algorithms"])
    # Every host must hear of the other's half of the vector; one that stays alone sends nothing.
    vector = 24 * 1024 * 8
    assert one["wire_bytes"] < vector / 100 and 0.95 * vector < by_host["wire_bytes"] < 1.2 * vector
    assert by_host["wire_bytes"] < flat["wire_bytes"]
