"""A network in which some nodes cannot reach some others: the same ranks go on every time."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from typing import Any, Dict, List, Tuple

import pytest

from nezha.lab import Lab

pytestmark = pytest.mark.usefixtures("namespaces")

NODES = 4
RAILS = 2
_RANK = os.path.join(os.path.dirname(__file__), "partition_rank.py")
# Only a broken library takes this long to answer; it is killed then, which fails the test.
_ANSWER_S = 90.0
# Nobody has this hardware address, so what is sent to it vanishes on the way.
_NOBODY = "02:00:00:00:00:fe"


def cut(lab: Lab, pairs: List[Tuple[int, int]]) -> None:
    """The nodes of each pair hear nothing of each other on any rail. One command a node, because a rank
    finds out about the first cut after `outage_s`, and all are to be made by then."""
    nodes = lab.status()["nodes"]
    commands: Dict[int, List[str]] = {}
    for node, other in [*pairs, *(pair[::-1] for pair in pairs)]:
        commands.setdefault(node, []).extend(
            f"neigh replace {port['address'].split('/')[0]} lladdr {_NOBODY} dev eth{rail} nud permanent"
            for rail, port in enumerate(nodes[other]["ports"]))
    for node, lines in commands.items():
        done = lab.popen(node, ["ip", "-batch", "-"], stdin=subprocess.PIPE, text=True)
        done.communicate("\n".join(lines) + "\n")
        assert done.returncode == 0


def retransmissions(lab: Lab, node: int) -> int:
    """TCP segments that a node has sent again."""
    told = lab.popen(node, ["cat", "/proc/net/snmp"], stdout=subprocess.PIPE, text=True)
    names, values = (line.split() for line in told.communicate()[0].splitlines()
                     if line.startswith("Tcp:"))
    return int(values[names.index("RetransSegs")])


def partitioned(pairs: List[Tuple[int, int]], **settings: Any) -> List[Dict[str, Any]]:
    """What each rank says last after these pairs of nodes were cut."""
    with Lab(NODES, ["100mbit"] * RAILS) as lab:
        config = json.dumps({"timeout_s": 60, "outage_s": 4, "log_level": "error", **settings})
        ranks = [lab.popen(node, [sys.executable, _RANK, config], env=lab.rank_env(node),
                           stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
                 for node in range(NODES)]
        watchdog = threading.Timer(_ANSWER_S, lambda: [rank.kill() for rank in ranks])
        watchdog.start()
        try:
            for rank in ranks:
                assert json.loads(rank.stdout.readline()) == {"ready": True}
            before = [retransmissions(lab, node) for node in range(NODES)]
            cut(lab, pairs)
            told = [json.loads(rank.stdout.readline()) for rank in ranks]
            after = [retransmissions(lab, node) for node in range(NODES)]
        finally:
            watchdog.cancel()
            for rank in ranks:
                rank.kill()
                rank.wait()
                rank.stdin.close()
                rank.stdout.close()
    lost_frames = [node for node in range(NODES) if after[node] > before[node]]
    assert set(lost_frames) >= {node for pair in pairs for node in pair}, "the fault did not happen"
    return told


def expect(told: List[Dict[str, Any]], going_on: List[int]) -> None:
    """These ranks went on together, and every other one got an error of shrink()."""
    for rank, said in enumerate(told):
        if rank in going_on:
            assert said == {"ranks": going_on}, told
        else:
            assert said.get("error") == "PeerLost", told


@pytest.mark.parametrize("turn", [pytest.param(turn, marks=[pytest.mark.long] if turn > 1 else [])
                                  for turn in range(10)])
def test_a_partial_partition_always_leaves_the_same_ranks(turn: int) -> None:
    expect(partitioned([(0, 1)] if turn % 2 == 0 else [(1, 0)]), [0, 2, 3])


def test_half_of_the_ranks_go_on_with_the_lowest() -> None:
    expect(partitioned([(0, 1), (0, 2), (3, 1), (3, 2)]), [0, 3])


def test_without_a_quorum_both_halves_go_on() -> None:
    told = partitioned([(0, 1), (0, 2), (3, 1), (3, 2)], quorum="none")
    assert told == [{"ranks": [0, 3]}, {"ranks": [1, 2]}, {"ranks": [1, 2]}, {"ranks": [0, 3]}]
