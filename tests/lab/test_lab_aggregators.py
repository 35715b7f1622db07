"""Rails with aggregation nodes: what is asked for, nodes that answer everybody, and how they end."""

from __future__ import annotations

import dataclasses
import json
import os
import signal
import socket
import subprocess
import sys
from typing import List, Optional

import pytest
from conftest import child_env, eventually, left_behind, nezha_lab, start_python

from nezha.lab import Lab, LabError, Node, Port, Rail, format_rail
from nezha_tools.lab import _aggregators, _aggregator_processes, _layout
from nezha.lab import parse_rail, parse_rate
from nezha_tools.lab import _process, _state

_DIAL = """
import os, socket
host, _, port = os.environ["NEZHA_AGGREGATOR"].rpartition(":")
with socket.socket() as caller:
    caller.settimeout(20)
    device = os.environ["NEZHA_AGGREGATOR_DEVICE"]
    if device:
        caller.setsockopt(socket.SOL_SOCKET, 25, device.encode() + b"\\0")
    caller.connect((host, int(port)))
    caller.sendall(b"no ticket".ljust(72))
    assert caller.recv(1) == b""
print("closed")
"""


# ---- what is asked for

@pytest.mark.parametrize("text, printed", [("agg:1gbit", "agg:1gbit"), ("agg:0.5gbit", "agg:500mbit"),
                                           ("agg:none", "agg:none")])
def test_rails_are_read_and_printed(text: str, printed: str) -> None:
    rail = parse_rail(text)
    assert rail.kind == "agg" and format_rail(rail.kind, parse_rate(rail.rate)) == printed


@pytest.mark.parametrize("text, tree", [("2x3", (2, 3)), ("1x250", (1, 250)), (" 16x4 ", (16, 4))])
def test_trees_are_read(text: str, tree: tuple) -> None:
    assert _aggregators.parse_tree(text) == tree


@pytest.mark.parametrize("text", ["", "2", "2x", "x3", "0x3", "2x0", "2x3x4", "-1x3", "two x three"])
def test_other_trees_are_refused(text: str) -> None:
    with pytest.raises(LabError, match="2x3"):
        _aggregators.parse_tree(text)


def planned(nodes: int, rails: List[str], tree: str = "") -> _state.LabState:
    read = [parse_rail(rail) for rail in rails]
    made = _layout.nodes("x", [Node([Port(r) for r in range(len(rails))])] * nodes, read, 1500)
    found = _aggregators.plan(read, made, _aggregators.parse_tree(tree) if tree else None, False,
                             lambda role: f"/ns/{role}")
    return _state.LabState("x", "root", 0, 0, "/ns/sw", [0] * len(rails), [rail.kind for rail in read],
                           "", 10.0, "bulk", 0, 1, nodes=made, aggregators=found)


def test_one_node_is_in_the_switch() -> None:
    lab = planned(3, ["1gbit", "agg:1gbit"])
    (one,) = lab.aggregators
    assert (one.netns, one.device, one.endpoint) == ("/ns/sw", "br1", "10.2.0.254:7700")
    assert len(lab.namespaces()) == 4
    assert _aggregators.node_env(lab, 2) == {"NEZHA_AGGREGATOR": "10.2.0.254:7700",
                                            "NEZHA_AGGREGATOR_DEVICE": "eth1"}
    # Among ranks the rail is one like any other.
    assert _process.rank_env(lab, 0)["NEZHA_RAILS"] == "=eth0,eth1"
    assert _process.rail_filter(lab, 0, 1) == "=eth1"


def test_a_tree_has_a_namespace_for_each_node() -> None:
    lab = planned(6, ["agg:1gbit"], "2x3")
    assert lab.namespaces()[-3:] == ["/ns/a0", "/ns/a1", "/ns/a2"]
    assert _aggregators.topology(lab) == {"nodes": [
        {"name": "root", "address": "10.1.0.254:7700"},
        {"name": "leaf0", "address": "10.1.0.253:7700", "parent": "root",
         "serves": ["10.1.0.1/32", "10.1.0.2/32", "10.1.0.3/32"]},
        {"name": "leaf1", "address": "10.1.0.252:7700", "parent": "root",
         "serves": ["10.1.0.4/32", "10.1.0.5/32", "10.1.0.6/32"]}]}
    assert _state.LabState.from_json(dataclasses.asdict(lab)) == lab


def test_a_node_without_the_rail_is_told_nothing() -> None:
    rails = [Rail(), Rail(kind="agg")]
    made = _layout.nodes("x", [Node([Port(0), Port(1)]), Node([Port(0)])], rails, 1500)
    found = _aggregators.plan(rails, made, None, False, lambda role: role)
    lab = _state.LabState("x", "root", 0, 0, "sw", [0, 0], ["tcp", "agg"], "", 10.0, "bulk", 0, 1,
                         nodes=made, aggregators=found)
    assert _aggregators.node_env(lab, 0) and not _aggregators.node_env(lab, 1)


@pytest.mark.parametrize("nodes, rails, tree, words", [
    (4, ["1gbit"], "2x2", "needs an agg: rail"), (4, ["agg:1gbit", "agg:1gbit"], "", "one at a time"),
    (4, ["agg:1gbit"], "2x1", "does not fit"), (4, ["agg:1gbit"], "3x2", "does not fit"),
    (250, ["agg:1gbit"], "50x5", "addresses")])
def test_what_cannot_be(nodes: int, rails: List[str], tree: str, words: str) -> None:
    with pytest.raises(LabError, match=words):
        planned(nodes, rails, tree)


def test_a_node_that_cannot_start_takes_the_lab_with_it(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as other:
        other.bind(("127.1.0.254", 0))
        other.listen()
        port = other.getsockname()[1]
        monkeypatch.setattr(_aggregators, "_free_port", lambda: port)
        name = f"t{os.getpid()}-taken"
        with pytest.raises(LabError, match=f"port {port}"):
            Lab(2, ["agg:none"], name=name, mode="loopback").up()
    assert not os.path.exists(_state.path_of(name))


# ---- real ones

def dial(lab: Lab, node: int) -> str:
    done = lab.exec(node, [sys.executable, "-c", _DIAL], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return str(done.stdout)


def running(lab: Lab) -> List[int]:
    return [each["pid"] for each in lab.status()["aggregators"] if each["alive"]]


def ended(pid: int) -> bool:
    """Also when nobody has asked for its exit status yet."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8") as stat:
            return stat.read().rpartition(")")[2].split()[0] == "Z"
    except (FileNotFoundError, ProcessLookupError):
        return True


def gone(pids: List[int]) -> bool:
    return all(ended(pid) for pid in pids)


def test_it_answers_every_node_and_ends_with_the_lab(namespaces: None) -> None:
    with Lab(3, ["1gbit", "agg:100mbit"]) as lab:
        assert [dial(lab, node) for node in range(3)] == ["closed\n"] * 3
        pids = running(lab)
        log = _aggregator_processes.log_path(lab.state, lab.state.aggregators[0])
        assert len(pids) == 1 and "listening on 10.2.0.254:7700" in open(log).read()
    assert gone(pids) and not os.path.exists(log)
    assert not left_behind(lab.name)


def test_on_loopback_addresses() -> None:
    with Lab(2, ["agg:none"], mode="loopback") as lab:
        assert dial(lab, 1) == "closed\n"
        pids = running(lab)
    assert gone(pids)


def test_it_is_killed_and_started_again(namespaces: None) -> None:
    with Lab(2, ["agg:100mbit"]) as lab:
        (first,) = running(lab)
        lab.kill_aggregator()
        assert eventually(lambda: running(lab) == [])
        with pytest.raises(LabError, match="root"):
            lab.kill_aggregator()
        lab.start_aggregators()
        (second,) = running(lab)
        assert second != first and dial(lab, 0) == "closed\n"
        lab.start_aggregators()
        assert running(lab) == [second]
        with pytest.raises(LabError, match="leaf7"):
            lab.kill_aggregator("leaf7", signal.SIGSTOP)
    assert gone([first, second])


def test_it_does_not_outlive_an_owner_that_is_killed(namespaces: None) -> None:
    name = f"t{os.getpid()}-agg"
    owner = start_python(f"""
import time
from nezha.lab import Lab
lab = Lab(2, ["agg:100mbit"], name={name!r}).up()
print(lab.state.aggregators[0].pid, flush=True)
time.sleep(600)
""")
    try:
        pid = int(owner.stdout.readline())
        assert os.path.exists(f"/proc/{pid}")
    finally:
        owner.kill()
        owner.communicate()
    assert eventually(lambda: gone([pid]) and not left_behind(name))


def test_the_command_knows_of_it(namespaces: None) -> None:
    name = f"t{os.getpid()}-cmd"
    try:
        done = nezha_lab("up", "--nodes", "2", "--rates", "agg:100mbit", "--name", name)
        assert "aggregation node root at 10.1.0.254:7700" in done.stdout, done.stderr
        (pid,) = running(Lab.attach(name))
        assert f"10.1.0.254:7700: process {pid}" in nezha_lab("status", "--name", name).stdout
        Lab.attach(name).kill_aggregator()
        assert eventually(lambda: "does not run" in nezha_lab("status", "--name", name).stdout)
    finally:
        nezha_lab("down", "--name", name)
    assert gone([pid]) and not left_behind(name)


def test_a_tree_is_three_processes_that_know_each_other(namespaces: None) -> None:
    ask = "import json; from nezha import _native; print(_native.query('aggregator', '{}'))"
    with Lab(4, ["agg:100mbit"], agg_tree="2x2") as lab:
        pids = running(lab)
        assert len(pids) == 3
        for node, leaf in ((0, "leaf0"), (1, "leaf0"), (3, "leaf1")):
            done = lab.exec(node, [sys.executable, "-c", ask], capture_output=True, text=True, timeout=60,
                            env=child_env())
            answer = json.loads(done.stdout)
            assert answer["reachable"] and answer["served_by"] == leaf, answer
            assert [each["name"] for each in answer["topology"]["nodes"]] == ["root", "leaf0", "leaf1"]
        lab.kill_aggregator("leaf1")
        assert eventually(lambda: len(running(lab)) == 2)
        lab.start_aggregators()
        pids += running(lab)
    assert gone(pids) and not left_behind(lab.name)


# A busy machine that holds up a node for a third of a second ends its session, which is made again;
# meanwhile data goes over the other rail. So the ranks go on until each has sent enough to the node.
_JOB = """
import nezha, numpy
with nezha.init(config={"aggregator_share": "1"}) as comm:
    x = numpy.arange(1 << 18, dtype=numpy.float32) % 64
    lacks = 1
    while lacks:
        sums = comm.all_reduce(x.copy())
        assert (sums == x * comm.world_size).all()
        found = comm.stats()["aggregation"]
        lacks = int(found["state"] != "up" or found["bytes_sent"] < 8 * x.nbytes)
        lacks = comm.all_reduce(numpy.array([lacks], "i4"))[0]
    print("enough")
"""


@pytest.mark.parametrize("tree", [None, "2x2"])
def test_a_job_adds_up_through_it(namespaces: None, tree: Optional[str]) -> None:
    with Lab(4, ["200mbit", "agg:200mbit"], agg_tree=tree) as lab:
        ranks = [lab.popen(node, [sys.executable, "-c", _JOB], env={**child_env(), **lab.rank_env(node)},
                           stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
                 for node in range(4)]
        for rank in ranks:
            out, err = rank.communicate(timeout=120)
            assert out == "enough\n", (out, err)
