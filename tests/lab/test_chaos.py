"""Chaos in a real lab: every fault happens, is confirmed by the kernel, and is undone."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any, Callable, Dict, List, Sequence

import pytest
from conftest import child_env, eventually

from nezha_tools.chaos import report
from nezha_tools.cli.errors import ChaosError
from nezha_tools.chaos.nemesis import Happening
from nezha_tools.chaos.experiment import Request, Watcher, run
from nezha.lab import Lab, names

pytestmark = pytest.mark.usefixtures("namespaces")

_PROGRAM = os.path.join(os.path.dirname(__file__), "chaos_program.py")
_ENDS_BY_ITSELF = "import sys; sys.exit({code})"


def _document(tmp_path: Path, faults: List[str], traffic: str = "0,1",
              look: Callable[[Happening], None] = lambda _: None, arguments: Sequence[str] = (),
              then_s: float = 0.0, **options: Any) -> Dict[str, Any]:
    """The report of a run that ends then_s after its last fault. look: called as each fault ends.

    arguments: more of them for chaos_program.py.
    """
    stop, ended = tmp_path / "stop", []
    options.setdefault("count", len(faults))

    def end(happening: Happening) -> None:
        ended.append(happening)
        look(happening)
        if len(ended) == options["count"]:
            threading.Timer(then_s, stop.touch).start()

    request = Request([sys.executable, _PROGRAM, str(stop), traffic, *arguments], faults,
                      **{"seed": 1, "nodes": 3, "rails": ["50mbit", "50mbit"], "every_s": 0.5,
                         "lasting_s": 0.4, "env": {"PYTHONPATH": child_env()["PYTHONPATH"]}, **options})
    with open(os.devnull, "wb") as nowhere:
        return report.document(run(request, Watcher(lambda _: None, end, nowhere, nowhere)))


def test_every_fault_happens_and_is_confirmed(tmp_path: Path) -> None:
    kinds = ["cut", "blackhole", "oneway", "reset", "slow", "crawl", "flap", "pause"]
    left: List[Dict[str, int]] = []

    def look(happening: Happening) -> None:
        if happening.injection.rail is not None:
            name = next(each for each in names() if each.startswith(f"p{os.getpid()}-"))
            left.extend(Lab.attach(name).facts(happening.injection.node, happening.injection.rail))

    found = _document(tmp_path, kinds, look=look, count=len(kinds) + 1)
    assert len(left) == len(kinds)
    for port in left:
        assert port["carrier"] == 1 and port["dropped"] == 0
        assert port["rate_out_bps"] == port["rate_in_bps"] == 50 * 10**6
    assert found["problems"] == [] and found["exit_code"] == 0, found["problems"]
    seen = {fault["kind"]: fault["evidence"] for fault in found["faults"]}
    assert set(seen) == set(kinds) - {"oneway"} | {"oneway-out", "oneway-in"}
    for kind, words in (("cut", "carrier lost"), ("blackhole", "packets dropped"),
                        ("oneway-in", "packets dropped"), ("oneway-out", "packets dropped"),
                        ("reset", "connections destroyed"), ("slow", "5 Mbit/s read back"),
                        ("crawl", "0.5 Mbit/s read back"), ("flap", "carrier lost"),
                        ("pause", "used 0 ticks")):
        assert words in seen[kind], (kind, seen[kind])
    assert len(found["undisturbed_bps"]) == 2 and min(found["undisturbed_bps"]) > 0
    assert len(found["timeline"]["rails_bps"]) == 2 and found["nezha"] == {}


def test_a_fault_that_hits_nothing_is_not_confirmed(tmp_path: Path) -> None:
    found = _document(tmp_path, ["blackhole"], traffic="0", only_rails=[1], only_nodes=[2])
    assert found["program"]["exit_code"] == 0 and found["exit_code"] == 1
    assert [fault["happened"] for fault in found["faults"]] == [False]
    assert "node 2 rail 1" in found["problems"][0] and "no packet" in found["problems"][0]


def test_faults_wait_until_the_program_is_at_work(tmp_path: Path) -> None:
    """Heartbeats, or what is sent at the start, are nothing to compare with."""
    found = _document(tmp_path, ["slow", "cut"], nodes=2, arguments=["7"])
    assert found["notes"] == [] and found["problems"] == []
    assert 70e6 < sum(found["undisturbed_bps"]) < 105e6
    assert found["steady_from_s"] > found["traffic_from_s"] + 1
    shares = [fault[key] for fault in found["faults"] for key in ("traffic_during", "traffic_after")]
    assert all(share is None or share < 1.3 for share in shares), shares


@pytest.mark.long
def test_seconds_at_half_the_rate_without_a_fault_are_found(tmp_path: Path) -> None:
    """A program that leaves a rail alone for 4 s after a reset, and then takes it back."""
    found = _document(tmp_path, ["reset"], nodes=2, only_rails=[1], arguments=["0", "4"], then_s=9.0)
    below = found["below"]
    assert below["undisturbed"]["below_s"] == 0, below
    assert 2.9 < below["after_last_fault"]["below_s"] < 6 and below["after_last_fault"]["judged_s"] > 7
    assert below["calm"] == below["after_last_fault"]
    assert all(each["carried_bps"] < 0.8 * each["possible_bps"] for each in below["windows"])


def test_a_killed_rank_is_no_failure_of_the_others(tmp_path: Path) -> None:
    found = _document(tmp_path, ["kill"], nodes=2)
    assert found["exit_code"] == 0 and found["problems"] == []
    assert sorted(found["program"]["exit_codes"]) == [-9, 0]


def test_faults_that_overlap_keep_their_own_counters(tmp_path: Path) -> None:
    found = _document(tmp_path, ["oneway", "slow"], nodes=3, count=4, every_s=0.3, lasting_s=1.0)
    assert found["problems"] == []
    spans = [(fault["began_s"], fault["ended_s"]) for fault in found["faults"]]
    assert any(b < end for (_, end), (b, _) in zip(spans, spans[1:])), spans


def test_nezha_survives_and_tells_what_it_counted(tmp_path: Path) -> None:
    pytest.importorskip("nezha._native")
    found = _document(tmp_path, ["slow", "reset", "pause"], traffic="nezha", only_rails=[1])
    assert found["exit_code"] == 0 and found["problems"] == [], found["program"]
    assert sorted(found["nezha"]) == ["0", "1", "2"]
    assert all(counts["operations_begun"] > 0 for counts in found["nezha"].values())
    assert sum(counts["endpoints_lost"] for counts in found["nezha"].values()) > 0


def test_what_the_schedule_cannot_do_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ChaosError, match="64kbit"):
        _document(tmp_path, ["crawl"], rails=["1mbit", "1mbit"])
    with pytest.raises(ChaosError, match="cannot be 10 times slower"):
        _document(tmp_path, ["slow"], rails=["none", "none"])
    with Lab(1) as lab:
        can_delay = lab.can_delay()
    if not can_delay:
        with pytest.raises(ChaosError, match="no netem"):
            _document(tmp_path, ["delay"])


def test_a_delay_is_there_and_gone(tmp_path: Path) -> None:
    with Lab(2) as lab:
        if not lab.can_delay():
            pytest.skip("this kernel has no netem")
        lab.delay(0, 0, 50)
        assert lab.facts(0, 0)[0]["delay_ms"] == 50
        lab.restore(0, 0)
        facts = lab.facts(0, 0)[0]
        assert (facts["delay_ms"], facts["rate_out_bps"]) == (0, 10**9)


def test_the_command_reports_and_leaves_nothing(tmp_path: Path) -> None:
    stop, json_file, picture = tmp_path / "stop", tmp_path / "r.json", tmp_path / "deep" / "p.png"
    command = [sys.executable, "-c", "import sys; sys.argv[0] = 'nezha'; "
               "from nezha_tools.main import main; main()", "chaos", "--nodes", "2", "--rates",
               "50mbit,50mbit", "--faults", "cut", "--count", "1", "--every", "300ms", "--seed", "5",
               f"--json={json_file}", "--plot", str(picture), "--", sys.executable,
               _PROGRAM, str(stop), "0,1"]
    child = subprocess.Popen(command, env=child_env(), text=True, stdout=subprocess.PIPE,
                             stderr=subprocess.PIPE)
    assert child.stderr is not None
    said = iter(child.stderr.readline, "")
    assert any("cut of node" in line and "yes, carrier lost" in line for line in said)
    stop.touch()
    out, _ = child.communicate(timeout=60)
    assert child.returncode == 0, out
    assert "carrier lost" in out and "1 faults, 1 confirmed" in out and "--seed 5" in out
    found = json.loads(json_file.read_text())
    assert found["config"]["seed"] == 5 and found["faults"][0]["happened"] is True
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        pass
    else:
        assert picture.read_bytes().startswith(b"\x89PNG")
    assert f"p{child.pid}-0" not in names()


@pytest.mark.parametrize("code, wanted", [(0, 1), (7, 7)])
def test_a_program_without_traffic_had_no_faults(tmp_path: Path, code: int, wanted: int) -> None:
    program = [sys.executable, "-S", "-c", _ENDS_BY_ITSELF.format(code=code)]
    request = Request(program, ["cut"], seed=1, nodes=2)
    with open(os.devnull, "wb") as nowhere:
        found = report.document(run(request, Watcher(lambda _: None, lambda _: None, nowhere, nowhere)))
    assert found["exit_code"] == wanted and "sent data" in found["problems"][0]
    assert found["faults"] == [] and found["undisturbed_bps"] is None


def test_a_rule_keeps_its_count_when_others_come() -> None:
    with Lab(2, ["50mbit", "50mbit"]) as lab:
        lab.cut(0, 0, silent=True)
        shout = ("import socket; s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); "
                 "s.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1); "
                 "[s.sendto(b'x', ('10.1.0.255', 9)) for _ in range(5)]")
        lab.exec(0, [sys.executable, "-S", "-c", shout], check=True)
        assert eventually(lambda: lab.facts(0, 0)[0]["dropped"] == 5)
        lab.cut(1, 1, silent=True, direction="in")
        assert (lab.facts(0, 0)[0]["dropped"], lab.facts(1, 1)[0]["dropped"]) == (5, 0)
        lab.restore(0, 0)
        lab.cut(0, 0, silent=True)
        assert lab.facts(0, 0)[0]["dropped"] == 0


def test_counts_read_during_a_change_are_those_before_or_after_it() -> None:
    with Lab(2, ["50mbit", "50mbit"]) as lab:
        lab.cut(0, 0, silent=True)
        shout = ("import socket; s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); "
                 "s.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1); "
                 "s.sendto(b'x', ('10.1.0.255', 9))")
        lab.exec(0, [sys.executable, "-S", "-c", shout], check=True)
        assert eventually(lambda: lab.facts(0, 0)[0]["dropped"] == 1)
        done = threading.Event()

        def change() -> None:
            other = Lab.attach(lab.name)
            for _ in range(15):
                other.cut(1, 1, silent=True)
                other.restore(1, 1)
            done.set()

        changing = threading.Thread(target=change)
        changing.start()
        seen = set()
        while not done.is_set():
            seen.add(lab.facts(0, 0)[0]["dropped"])
        changing.join()
        assert seen == {1}
