"""`nezha bench interference` and `--cores-per-rail` on real wires. Rates are low, so that the wires and
not this machine's processors are the limit; nothing is said about absolute times."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any, Dict

import pytest
from conftest import child_env

pytestmark = pytest.mark.usefixtures("namespaces")


def bench(*arguments: str) -> Dict[str, Any]:
    """The JSON of `nezha bench ...`."""
    code = "import sys; from nezha.cli import main; sys.exit(main())"
    done = subprocess.run([sys.executable, "-c", code, "bench", *arguments, "--json", "-"],
                          env=child_env(), text=True, capture_output=True, timeout=240)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_the_matrix_is_measured_and_used(tmp_path: Path) -> None:
    file = tmp_path / "matrix.json"
    found = bench("interference", "--rails", "100mbit,50mbit", "-b", "256K", "-e", "1M",
                  "--seconds", "0.2", "--config", "chunk_bytes=32K", "--save", str(file))
    fast, slow = found["rails"]
    assert (fast["name"], slow["name"]) == ("eth0", "eth1")
    assert 1.6 < fast["rate_gbps"] / slow["rate_gbps"] < 2.5
    # On so slow wires the rails have little to lose to each other.
    assert found["rate_lost"][0][1] < 0.4 and found["rate_lost"][1][0] < 0.5
    assert found["rules"][0]["fast"] == 0 and found["rules"][0]["helps"]
    for each in found["measurements"]:
        sent = each["sent"]
        if each["what"] == "rails 0 and 1, 99:1" and each["size"] == 1 << 20:
            assert sent[0] > 20 * sent[1]
        if each["what"] == "rails 0 and 1, even":
            assert 1.2 < sent[0] / sent[1] < 3.2
    assert json.loads(file.read_text())["rails"] == ["eth0", "eth1"]
    harmful = json.loads(file.read_text())
    harmful["rate_lost"] = [[0, 0.6], [0.1, 0]]  # past the rule: 0.9 / 0.6 < 2
    file.write_text(json.dumps(harmful))
    rows = bench("all_reduce", "--nodes", "2", "--rails", "100mbit,50mbit", "-b", "1M", "-e", "1M",
                 "-n", "4", "-w", "1", "--no-gain", "--config", f"interference_file={file}")["rows"]
    shares = {rail["name"]: rail["share"] for rail in rows[0]["rails"]}
    assert shares["eth0"] > 0.7, "the slower rail takes probes only"


def test_ranks_get_the_processors_that_were_asked_for() -> None:
    found = bench("all_reduce", "--nodes", "2", "--rails", "100mbit,100mbit", "-b", "64K", "-e", "64K",
                  "-n", "3", "-w", "1", "--no-gain", "--cores-per-rail", "1")
    cores = found["config"]["cores"]
    assert cores["wanted_per_rank"] == 2 and cores["ranks_on_host"] == 2
    assert found["rows"][0]["cores_given"] == cores["given_per_rank"]
    assert found["free"]["rows"][0]["cores_given"] == cores["host"]
    assert found["rows"][0]["wrong"] == 0
