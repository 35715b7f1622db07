"""The shipped schedules of ranks that share hosts, message by message in the order of time.

What waves (nezha_study.sim.engine) compute for all ranks at once is done here one message after the
other: rounds open when what they wait for has landed, ports send what is given to them in that order, a
rank has one processor for all that it takes. For few ranks, to say how far the waves are off.
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from typing import Any, Dict, List, Tuple

import numpy as np

from nezha_study.sim.cluster import FRAME_BYTES, Cluster
from nezha_study.sim.waves import Plan, Sizes, Wave

from .shipped import answer_of

_Program = Tuple[int, int, int]  # rank, slice, chunk


def run(cluster: Cluster, collective: str, algorithm: str, made: Plan, count: int,
        root: int = 0) -> float:
    """Seconds until the last rank is done."""
    return _Run(cluster, collective, algorithm, made, count, root).run()


class _Run:
    def __init__(self, cluster: Cluster, collective: str, algorithm: str, made: Plan, count: int,
                 root: int) -> None:
        self._cluster, self._layout = cluster, cluster.layout
        answer = answer_of(collective, algorithm, cluster.ranks, root, cluster.layout)
        self._rounds = {(each["rank"], number): content["rounds"] for each in answer["ranks"]
                        for number, content in enumerate(each["slices"])}
        self._made, self._sizes = made, Sizes(made, count, cluster.ranks, exact=True)
        self._slices = answer["slices"]
        self._missing: Dict[_Program, List[int]] = {}   # receives, by round
        self._at: Dict[_Program, int] = {}              # the round that is open
        self._place: Dict[Any, int] = {}                # of a receive: its round
        self._tx: Dict[Any, float] = defaultdict(float)
        self._rx: Dict[Any, float] = defaultdict(float)
        self._cpu: Dict[int, float] = defaultdict(float)
        self._events: List[Any] = []
        self._start = np.broadcast_to(cluster.start_s, (cluster.hosts,))[cluster.layout.host_of]
        self._done, self._turn = 0.0, 0

    def run(self) -> float:
        for chunk in range(self._made.chunks):
            for number in range(self._slices):
                for rank in range(self._cluster.ranks):
                    self._begin((rank, number, chunk))
        while self._events:
            now, _, what, data = heapq.heappop(self._events)
            what(now, *data)
        return self._done - float(self._start.min())

    def _later(self, time: float, what: Any, *data: Any) -> None:
        self._turn += 1
        heapq.heappush(self._events, (time, self._turn, what, data))

    def _begin(self, program: _Program) -> None:
        rounds = self._rounds[program[:2]]
        self._missing[program] = [sum(step["kind"].startswith("recv") for step in steps)
                                  for steps in rounds]
        self._at[program] = -1
        for turn, steps in enumerate(rounds):
            for step in steps:
                if step["kind"].startswith("recv"):
                    self._place[(program, step["peer"], step["stage"], step["slot"])] = turn
        self._later(self._start[program[0]], self._open, program)

    def _open(self, now: float, program: _Program) -> None:
        rounds, missing = self._rounds[program[:2]], self._missing[program]
        while self._at[program] + 1 < len(rounds) and not any(missing[:self._at[program] + 1]):
            self._at[program] += 1
            for step in rounds[self._at[program]]:
                if step["kind"] == "send":
                    self._send(now, program, step)

    def _send(self, now: float, program: _Program, step: Any) -> None:
        src, dst = program[0], step["peer"]
        size = float(self._sizes.of(Wave(np.array([src]), np.array([dst]), program[1], *step["parts"],
                                         step["stage"]), program[2])[0])
        hosts = self._layout.host_of[[src, dst]]
        if hosts[0] == hosts[1]:
            rate, late = self._cluster.inside
            ways = [((src, -1), (dst, -1), rate, late)]
        else:
            rails = enumerate(zip(self._cluster.rate[0], self._cluster.latency_s))
            ways = [((hosts[0], rail, "of host"), (hosts[1], rail, "of host"), rate, late)
                    for rail, (rate, late) in rails]
        ends = [max(now, self._tx[out]) + (size + FRAME_BYTES) / rate + late
                for out, _, rate, late in ways]
        out, into, rate, late = ways[int(np.argmin(ends))]
        took = (size + FRAME_BYTES) / rate
        begin = max(now, self._tx[out])
        self._tx[out] = begin + took
        self._later(begin + late, self._comes, program, step, size, into, took, late)

    def _comes(self, now: float, program: _Program, step: Any, size: float, into: Any, took: float,
               late: float) -> None:
        self._rx[into] = max(self._rx[into], now, self._start[step["peer"]]) + took
        self._later(self._rx[into], self._arrives, program, step, size, late)

    def _arrives(self, now: float, program: _Program, step: Any, size: float, late: float) -> None:
        src, number, chunk = program
        receiver = (step["peer"], number, chunk)
        turn = self._place[(receiver, src, step["stage"], step["slot"])]
        reduces = any((each["kind"], each["peer"], each["stage"]) == ("recv_reduce", src, step["stage"])
                      for each in self._rounds[receiver[:2]][turn])
        rank = receiver[0]
        self._cpu[rank] = max(now, self._cpu[rank]) + self._cluster.gap_s
        self._cpu[rank] += size / float(self._cluster.adds[0]) if reduces else 0
        self._done = max(self._done, now + late)
        self._later(self._cpu[rank], self._lands, receiver, turn)

    def _lands(self, now: float, program: _Program, turn: int) -> None:
        self._done = max(self._done, now)
        self._missing[program][turn] -= 1
        self._open(now, program)
