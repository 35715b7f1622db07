"""Figures of `nezha study paper` that watch rails and ranks, for real and small."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from nezha_study.paper import cpu_share, failover, memory, processor_counters
from nezha_study.paper.combinations import ALL
from nezha_study.paper.jobs import Settings
from paper_study import study

SMALL = ["--nodes", "2", "--rate", "200mbit", "-e", "64K", "--seconds", "0.02"]


def test_rates_of_ports(namespaces: None, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    found = study("--only", "fig6", *SMALL, "--out", str(tmp_path))["figures"]["fig6"]
    ports = {(each["combination"], each["device"]): each for each in found["ports"]}
    assert list(ports) == [("T", "eth0"), ("TT", "eth0"), ("TT", "eth1")]
    # What a wire of 200 Mbit/s carries, and a tenth more for what its bucket holds at the beginning.
    most = 200e6 / 8 / 1024 * 1.1
    for each in ports.values():
        assert 0 < each["kb_per_s"] < most and len(each["rates"]) == len(each["at_s"]) > 1
    assert len(found["claims"]) >= 4


def test_fewer_processors_are_slower(namespaces: None, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    if cpu_share.refusal() is not None:
        pytest.skip(str(cpu_share.refusal()))
    found = study("--only", "fig11", *SMALL, "--out", str(tmp_path))["figures"]["fig11"]
    assert {"T", "A"} <= set(found["cells"])
    for cells in found["cells"].values():
        processors = [each["processors"] for each in cells]
        assert processors == sorted(processors) and all(each["time_us"] > 0 for each in cells)


def test_a_limit_on_processors_holds() -> None:
    if cpu_share.refusal() is not None:
        pytest.skip(str(cpu_share.refusal()))
    loop = ("import time; begin = time.monotonic(); busy = time.process_time()\n"
            "while time.monotonic() < begin + 1: pass\n"
            "print(time.process_time() - busy)")
    with cpu_share.Group() as group:
        group.limit(0.1)
        used = float(subprocess.run([sys.executable, "-c", loop], capture_output=True, text=True,
                                    check=True).stdout)
    assert 0 < used < 0.25  # of the second; a limit is kept within a few periods


def test_results_flow_again_after_each_fault(namespaces: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(failover, "_EACH", 1)
    monkeypatch.setattr(failover, "_STEADY_S", 0.1)
    monkeypatch.setattr(failover, "_STRUCK_S", 0.7)
    phases = []
    job = failover.jobs(ALL, [2])[0]
    found = job.measure(Settings(200, 64 << 10, 0.1), phases.append)["faults"]
    assert [each["what"] for each in found] == list(failover.FAULTS)
    assert len(phases) == 2 * len(found) == job.records(Settings(200))
    for each in found:
        assert 0 < each["usual_ms"] and 0 < each["longest_ms"] < 10_000
        assert sum(each["counters"].values()) > 0, each  # the library has seen it


def test_ranks_count_during_operations(namespaces: None, monkeypatch: pytest.MonkeyPatch) -> None:
    switches = processor_counters.Event("context switches", 1, 3)  # which the kernel counts itself
    refused = processor_counters.refusals([switches])
    if refused:
        pytest.skip(f"perf_event_open: {refused}")
    monkeypatch.setattr(processor_counters, "EVENTS", [switches])
    job = memory.jobs(ALL, [2])[0]
    found = job.measure(Settings(200, 64 << 10, 0.1), lambda record: None)
    assert list(found["counts"]) == ["context switches"]
    # Each operation ends on two ranks, which wait for each other on wires of 200 Mbit/s.
    assert found["counts"]["context switches"] >= 2
