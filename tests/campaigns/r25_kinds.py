"""R25: rails of three kinds carry one operation: TCP, libfabric, and an aggregation node that adds up a
part of it. Each kind is struck in turn, returns, and is used again before the next fault."""

from __future__ import annotations

import itertools
import random
from typing import Any, Dict, List, Optional, Sequence, Tuple

from campaigns.campaign import Record
from campaigns.cases import Case
from campaigns.job import Job
from campaigns.lines import Broken
from campaigns.measure import Figure, spread
from campaigns.r01_kill import Kill
from campaigns.r02_black_hole import BlackHole
from campaigns.rails import RETURN_OF_SILENT_S

_RAILS = ["1gbit", "ofi:1gbit", "agg:1gbit"]
_KINDS = ["TCP", "RDMA", "node"]
_NODE = 2  # the rail of the aggregation node
_CHUNK = 1 << 16  # bytes that a kind must have carried at least
_SIZE = 1 << 18  # elements
# Integers: the bits of a floating point sum depend on the part that the node adds up. No algorithm is
# named, since an operation whose caller names one does not use the node.
_CASES = [
    Case("all_reduce", _SIZE, "int32"),
    Case("all_reduce", _SIZE // 2, "int32", async_op=True),
    Case("all_reduce", _SIZE // 2, "int64"),
    Case("all_reduce", _SIZE // 4, "int32"),
    Case("reduce_scatter", _SIZE // 4, "int32"),
    Case("all_gather", _SIZE // 4, "int32"),
]


def _carried(job: Job) -> Dict[int, List[int]]:
    """By rank, the bytes that it has sent over TCP, libfabric and to the node."""
    return {rank: [*(known["rails"][rail]["bytes_sent"] for rail in range(_NODE)),
                   known["stats"]["aggregation"]["bytes_sent"]] for rank, known in job.state().items()}


def _sessions_lost(job: Job) -> int:
    return sum(known["stats"]["aggregation"]["sessions_lost"] for known in job.state().values())


class _Kinds:
    """What both campaigns have in common."""

    rails: Sequence[str] = _RAILS
    struck: Sequence[int] = range(len(_RAILS))
    cases: Sequence[Case] = _CASES
    # A policy that gives every kind its part of every operation, so that all are struck while they carry.
    settings: Dict[str, Any] = {"policy": "round_robin", "aggregator_share": 0.4,
                                "return_s": RETURN_OF_SILENT_S, "proven": True}

    def __init__(self) -> None:
        self._job: Optional[Job] = None
        self._before: Dict[int, List[int]] = {}
        self._in_turn = itertools.cycle(range(len(_RAILS)))

    def next_rail(self) -> int:
        """The rails in turn."""
        return next(self._in_turn)

    def confirm(self, job: Job) -> None:
        """Raises Broken unless every rank has used all kinds since the fault before."""
        if job is not self._job:  # a new one, whose counters begin at zero
            self._job, self._before = job, {}
        carried = _carried(job)
        for rank, sent in carried.items():
            grown = [now - before for now, before in zip(sent, self._before.get(rank, [0] * len(sent)))]
            if min(grown) < _CHUNK:
                raise Broken(f"rank {rank} has not used all kinds of rails: it sent {grown} bytes over "
                             f"{', '.join(_RAILS)}")
        self._before = carried


def _figures(record: Record, p50: float, p99: float, most: float) -> List[Figure]:
    """The stalls of each kind; a lost node's as R22 judges them."""
    found = []
    for rail, kind in enumerate(_KINDS):
        stalls = record.of("stall", rail=rail)
        found += (spread(f"{kind}: stall", stalls, p99=500) if rail == _NODE else
                  spread(f"{kind}: stall", stalls, p50, p99, most))
    return found


class KillKinds(_Kinds, Kill):
    """On the node's rail a rank's connections to its peers and to the node are killed together."""

    id = "R25"
    title = "TCP, RDMA and aggregation in one operation, connections killed"
    wanted = (6, 120, 600)
    budget_s = 150.0

    def __init__(self) -> None:
        super().__init__()
        self._struck = 0
        self._sessions_lost = 0

    def choose(self, rng: random.Random,
               targets: List[Tuple[int, int, int]]) -> Tuple[int, int, Optional[int]]:
        self._struck = rail = self.next_rail()
        node, _, peer = rng.choice([link for link in targets if link[1] == rail])
        return node, rail, None if rail == _NODE else peer

    def confirm(self, job: Job) -> None:
        """Also raises Broken where the node's rail was struck and no rank has lost its session."""
        lost_before = self._sessions_lost if job is self._job else 0
        super().confirm(job)
        self._sessions_lost = _sessions_lost(job)
        if self._struck == _NODE and self._sessions_lost == lost_before:
            raise Broken("the fault did not happen: no rank has lost its session with the node")

    def figures(self, record: Record) -> List[Figure]:
        return _figures(record, 10, 50, 250)


class BlackHoleKinds(_Kinds, BlackHole):
    """On the node's rail a rank loses its peers and the node together."""

    id = "R25-HOLE"
    title = "TCP, RDMA and aggregation in one operation, rails swallowed"
    wanted = (3, 24, 300)
    budget_s = 300.0

    def choose(self, rng: random.Random) -> Tuple[int, int]:
        return rng.randrange(self.nodes), self.next_rail()

    def figures(self, record: Record) -> List[Figure]:
        return _figures(record, 60, 250, 1000)
