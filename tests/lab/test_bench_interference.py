"""`nezha bench interference` and `--cores-per-rail` on real wires. Rates are low, so that the wires and
not this machine's processors are the limit; nothing is said about absolute times."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any, Dict, List

import pytest
from conftest import child_env

from nezha_tools.bench.interference_model import Costs, predict

pytestmark = pytest.mark.usefixtures("namespaces")


def run_bench(*arguments: str) -> "subprocess.CompletedProcess[str]":
    """`nezha bench ...`, to its end."""
    code = "import sys; from nezha_tools.main import main; sys.exit(main())"
    return subprocess.run([sys.executable, "-c", code, "bench", *arguments], env=child_env(),
                          text=True, capture_output=True, timeout=300)


def bench(*arguments: str) -> Dict[str, Any]:
    """The JSON of `nezha bench ...`."""
    done = run_bench(*arguments, "--json", "-")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def check_fit(found: Dict[str, Any]) -> None:
    """The matrix is the one that explains what was measured of two rails together, no worse than none
    and no worse than with the rails exchanged. What the document predicts is what its costs say."""
    rails, lost = found["rails"], found["rate_lost"]
    assert [lost[0][0], lost[1][1]] == [0, 0]
    costs = Costs([rail["startup_us"] * 1e-6 for rail in rails],
                  [8e-9 / rail["rate_gbps"] for rail in rails], lost, found["split_cost_us"] * 1e-6)

    def error(other: Costs) -> float:
        shared = [each for each in found["measurements"] if each["what"].endswith((" even", " last"))]
        assert len(shared) == 6
        return sum((predict(other, each["sent"]) / each["time_us"] * 1e6 - 1) ** 2 for each in shared)

    for each in found["measurements"]:
        assert each["predicted_us"] == pytest.approx(1e6 * predict(costs, each["sent"]), rel=1e-3)
    for matrix in ([[0, 0], [0, 0]], [[0, lost[1][0]], [lost[0][1], 0]]):
        assert error(costs) <= error(replace(costs, lost=matrix)) + 1e-6
    assert found["file"]["rate_lost"] == [[round(each, 4) for each in row] for row in lost]


def test_the_matrix_is_measured(tmp_path: Path) -> None:
    file = tmp_path / "matrix.json"
    found = bench("interference", "--rates", "100mbit,50mbit", "-b", "64K", "-e", "256K",
                  "--seconds", "0.05", "--passes", "1", "--config", "chunk_bytes=4K", "--save", str(file))
    assert [rail["name"] for rail in found["rails"]] == ["eth0", "eth1"]
    for each in found["measurements"]:  # a busy machine is late; nothing is faster than its wires
        least_us = max(bytes_ * 8e-3 / gbit for bytes_, gbit in zip(each["sent"], (0.1, 0.05)))
        assert each["time_us"] > 0.8 * least_us, each
    check_fit(found)
    assert json.loads(file.read_text()) == found["file"]
    assert len(found["rules"]) == 1 and len(found["measurements"]) == 14 and found["wrong"] == 0
    sent = {each["what"]: each["sent"] for each in found["measurements"]}  # of the largest size
    assert sent["rail 0 alone"][0] > 20 * sent["rail 0 alone"][1]
    assert sent["rail 1 alone"][1] > 20 * sent["rail 1 alone"][0]
    assert sent["rails 0 and 1, 99:1"][0] > 5 * sent["rails 0 and 1, 99:1"][1] > 0
    # What the slow rail is late with goes to the other one; left alone, that would carry twice as much.
    assert sent["rails 0 and 1, 1:99"][1] > sent["rails 0 and 1, 1:99"][0] > 0
    first, second = sent["rails 0 and 1, 0 last"], sent["rails 0 and 1, 1 last"]
    assert first[0] / first[1] > 1.3 * second[0] / second[1]


def calibration(lost: List[List[float]]) -> Dict[str, Any]:
    """A file as `nezha calibrate --interference` writes it, of rails of 100 and 50 Mbit/s."""
    return {"kind": "nezha calibration", "version": 1, "gap_us": 0.0, "adds_gb_per_s": 4.0,
            "rails": [{"name": name, "rate_gbps": rate, "latency_us": 50.0}
                      for name, rate in (("eth0", 0.1), ("eth1", 0.05))],
            "rate_lost": lost, "split_cost_us": 10.0}


def test_a_matrix_past_the_rule_keeps_operations_on_one_rail(tmp_path: Path) -> None:
    # Together the rails would do 0.6 x 150 Mbit/s: less than the fast one alone. Nothing is really lost
    # here, so the loss must be too small to make the slow rail look like the faster one.
    file = tmp_path / "matrix.json"
    shares = {}
    for lost in (0, 0.4):
        file.write_text(json.dumps(calibration([[0, lost], [lost, 0]])))
        row = bench("all_reduce", "--nodes", "2", "--rates", "100mbit,50mbit", "-b", "2M", "-e", "2M",
                    "--iters", "12", "-w", "6", "--no-gain",
                    "--config", f"calibration_file={file}")["rows"][0]
        shares[lost] = {rail["name"]: rail["share"] for rail in row["rails"]}["eth0"]
    assert shares[0.4] > shares[0] + 0.1, shares  # all but probes


def test_a_matrix_with_a_mistake_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "matrix.json"
    file.write_text(json.dumps(calibration([[1, 0], [0, 0]])))
    done = run_bench("all_reduce", "--nodes", "2", "--rates", "100mbit", "-b", "4", "-e", "4",
                     "--config", f"calibration_file={file}")
    assert done.returncode == 1
    assert "'rate_lost[0][0]'" in done.stderr and str(file) in done.stderr, done.stderr


def test_ranks_get_the_processors_that_were_asked_for() -> None:
    found = bench("all_reduce", "--nodes", "2", "--rates", "100mbit,100mbit", "-b", "64K", "-e", "64K",
                  "--iters", "3", "-w", "1", "--no-gain", "--cores-per-rail", "1")
    cores = found["config"]["cores"]
    assert cores["wanted_per_rank"] == 2 and cores["ranks_on_host"] == 2
    assert found["rows"][0]["cores_given"] == cores["given_per_rank"]
    assert found["free"]["rows"][0]["cores_given"] == cores["host"]
    assert found["rows"][0]["wrong"] == 0
