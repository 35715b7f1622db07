"""`nezha calibrate` on real wires: in labs of its own, and among the ranks of a launched job.

Rates are low and far apart, so that the wires and not this machine's processors are the limit.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import child_env

import nezha.lab
from nezha_tools.lab import shaping
from nezha_study.sim import calibration, engine_study

pytestmark = pytest.mark.usefixtures("namespaces")
CODE = "import sys; from nezha_tools.main import main; sys.exit(main())"
OPTIONS = ["calibrate", "-b", "128K", "-e", "512K", "--seconds", "0.05", "--passes", "1"]
WIRES = (80e6 / 8, 20e6 / 8)


def run(*command: str) -> "subprocess.CompletedProcess[str]":
    done = subprocess.run([sys.executable, "-c", CODE, *command], env=child_env(), text=True,
                          capture_output=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return done


def check(path: Path) -> calibration.Calibration:
    found = calibration.read(path)
    for cost, wire in zip(found.costs, WIRES):
        # A wire carries 96 % of its rate as payload. Two sizes that a busy machine held up by some
        # milliseconds tell the rate to a seventh; that of another rail is four times as high or low.
        assert 0.8 * wire < cost.rate < 1.15 * wire
    for fact, wire in zip(found.facts, WIRES):  # what a node's bucket lets pass at once
        bucket = shaping.default_burst(8 * wire, shaping.EXACT)
        assert 0.9 * bucket < fact.burst_bytes <= bucket
    assert {point.rails for point in found.points} == {(0,), (1,), (0, 1)}
    assert {point.hosts for point in found.points} == {2}
    return found


def check_inside(found: calibration.Calibration, ranks: int) -> None:
    assert found.inside is not None and found.inside.ranks == ranks
    assert found.inside.rate > 2 * WIRES[0]
    # Not less than over a rail: where other processes want the processors, short messages of either
    # kind take as long as the scheduler lets them wait (64 us in memory beside 36 over a rail).
    long = [point.seconds for point in found.points if point.size > 1000]
    assert 0 < found.inside.latency_s < min(long)


@pytest.mark.long
def test_rails_of_labs_are_measured_and_used(tmp_path: Path) -> None:
    path = tmp_path / "calibration.json"
    run(*OPTIONS, "--nodes", "2", "--rates", "80mbit,20mbit", "--ranks-per-node", "3", "--save",
        str(path))
    check_inside(check(path), 3)
    done = run("sim", "collective", "--nodes", "2,8", "--calibration", str(path), "-b", "128K", "-e",
               "512K", "--json=-")
    rows = json.loads(done.stdout)["rows"]
    assert [row["known_as"] for row in rows] == ["measured"] * 2 + ["extrapolated"] * 2
    assert all((row["measured_us"] is not None) == (row["known_as"] == "measured") for row in rows)


def test_rails_of_a_launched_job_are_measured(tmp_path: Path) -> None:
    path = tmp_path / "calibration.json"
    with nezha.lab.Lab(nodes=2, rails=["80mbit", "20mbit"], shaping="exact") as lab:
        run("run", "--lab", lab.name, "--", sys.executable, "-c", CODE, *OPTIONS, "--save", str(path))
    found = check(path)
    assert [fact.name for fact in found.facts] == ["eth0", "eth1"]
    assert found.nominal is None  # what a veth says is not believed
    assert found.inside is None


def test_a_slow_port_is_told_apart_by_pairs(tmp_path: Path) -> None:
    pairs, path = tmp_path / "p2p.json", tmp_path / "calibration.json"
    with nezha.lab.Lab(nodes=3, rails=["80mbit"], shaping="exact") as lab:
        lab.slow(2, 0, "20mbit")
        ranks = ["run", "--lab", lab.name, "--", sys.executable, "-c", CODE]
        run(*ranks, "bench", "p2p", "--size", "64K", "--seconds", "0.05", f"--json={pairs}")
        done = run(*ranks, *OPTIONS, "--pairs", str(pairs), "--save", str(path))
    found = calibration.read(path)
    assert found.ports is not None
    first, second, slow = (part for (part,) in found.ports)
    assert 0.1 < slow < 0.5 and min(first, second) > 0.6  # 20 of 80 Mbit/s, on a machine that may be busy
    assert "of host 2 has" in done.stdout + done.stderr
    rate = found.cluster(3).rate[:, 0]
    assert rate[2] == found.costs[0].rate and min(rate[:2]) > 1.5 * rate[2]


def test_ranks_of_a_host_measure_messages_among_them_and_its_first_one_the_rails(tmp_path: Path) -> None:
    path = tmp_path / "calibration.json"
    with nezha.lab.Lab(nodes=2, rails=["80mbit", "20mbit"], shaping="exact", ranks_per_node=2) as lab:
        run("run", "--lab", lab.name, "--", sys.executable, "-c", CODE, *OPTIONS, "--save", str(path))
    check_inside(check(path), 2)


@pytest.mark.long
def test_a_study_compares_what_was_not_fitted(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(engine_study, "FITTED_SIZES", (128 << 10, 512 << 10))
    monkeypatch.setattr(engine_study, "ASKED_SIZES", (256 << 10,))
    found = engine_study.run([["400mbit", "200mbit"]], [3], 0.02, 1,
                             lambda what, total: lambda sample: None)
    case, = found["cases"]
    assert [(row["hosts"], row["size"], row["algorithm"]) for row in case["rows"]] == [
        (3, 256 << 10, "ring"), (3, 256 << 10, "auto")]
    assert {point["size"] for point in case["calibration"]["points"]} == {96, 128 << 10, 512 << 10}
    for row in case["rows"]:
        assert row["error"] == pytest.approx(row["predicted_us"] / row["measured_us"] - 1)
    assert found["worst_error"] == max(abs(row["error"]) for row in case["rows"])
    # docs/simulation_study.md: at worst 15 % on idle cores, 72 % with nine processes for each of them.
    assert found["worst_error"] < (0.3 if found["load"] < 1.5 else 0.8), case["rows"]
    engine_study.plot(found, tmp_path / "study.png")
    assert (tmp_path / "study.png").stat().st_size > 10_000
