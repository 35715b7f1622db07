"""A series of rail faults on one job after another: every fault meets a job whose rails are up."""

from __future__ import annotations

import time
from collections import Counter
from typing import Any, Dict, List, Optional, Sequence, Tuple

from nezha.lab import Lab

from campaigns.campaign import Record
from campaigns.cases import Case
from campaigns.job import Job
from campaigns.lines import Broken

RAILS = 2
FABRIC = ["1gbit", "ofi:1gbit"]  # one of libfabric's beside one of TCP
# A killed rail that is not back by then counts as lost; the job is made anew. One that dies in silence
# again and again is dialled after up to 10 s (src/rails/redial.h).
_RETURN_S = 6.0
RETURN_OF_SILENT_S = 12.0
# In which what a return still holds must be given back. What a silent rail swallowed, the kernel sends
# again up to as long after the silence as that lasted: until then a provider keeps what belongs to it.
_LEFT_S = 15.0
# What the library says about the faults, of all ranks together.
_COUNTERS = ("endpoints_lost", "links_joined", "links_suspected", "links_recovered",
             "retransmitted", "reconciled", "hedged")


def links(state: Dict[int, Dict[str, Any]], proven: bool = False) -> List[Tuple[int, int, int]]:
    """(rank, rail, peer) of every connection that carries data, seen from both of its ends. proven:
    without those on probation, which carry little."""
    return [(rank, number, peer["rank"])
            for rank, known in state.items() for number, rail in enumerate(known["rails"])
            for peer in rail["peers"]
            if peer["up"] and not peer["suspect"] and not (proven and peer["on_probation"])]


def uses_node(stats: Dict[str, Any]) -> bool:
    """Whether a rank uses the aggregation node of its job; true in a job without one."""
    node = stats.get("aggregation")
    return node is None or (node["state"] == "up" and
                            any(comm["stage"] == "active" for comm in node["communicators"]))


def between_nodes(lab: Lab, up: Sequence[Tuple[int, int, int]]) -> List[Tuple[int, int, int]]:
    """(node, rail, peer's node) of all links that leave a node, each once."""
    found = {(lab.node_of(rank), rail, lab.node_of(peer)) for rank, rail, peer in up}
    return sorted(link for link in found if link[0] != link[2])


def lost_share(job: Job) -> float:
    """Bandwidth that one of a pair's rails has, of all its rails'."""
    return 1.0 / len(job.lab.rates())


class Series:
    """The present job of a series. A job that loses a rail for good is replaced, and counted.

    As a context manager it ends the job in order, or kills it when the block fails.
    """

    def __init__(self, lab: Lab, cases: Sequence[Case], record: Record,
                 return_s: float = _RETURN_S, proven: bool = False, **settings: Any) -> None:
        self._lab, self._cases, self._record, self._return_s = lab, cases, record, return_s
        self._proven = proven  # every fault meets rails of which none is on probation
        self._settings = {"flight_dump": str(record.dumps.absolute()), **settings}
        self._job: Optional[Job] = None
        self._at_first: Dict[int, Dict[str, Any]] = {}
        self._all = lab.ranks * (lab.ranks - 1) * len(lab.rates())
        record.notes.setdefault("jobs", 0)

    def __enter__(self) -> "Series":
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        if kind is None:
            self.end()
        elif self._job is not None:
            self._job.kill()

    def ready(self) -> Tuple[Job, List[Tuple[int, int, int]]]:
        """A job with all rails up, and its links. Raises Broken on wrong results."""
        up = self._wait() if self._job is not None else []
        if len(up) < self._all:
            self._renew()
            up = self._wait()
            if len(up) < self._all:
                raise Broken(f"a new job has {len(up)} of {self._all} links, or does not use its "
                             f"aggregation node: (rank, rail, peer) {up}")
            assert self._job is not None
            self._at_first = self._job.state()
        assert self._job is not None
        return self._job, up

    def _wait(self) -> List[Tuple[int, int, int]]:
        """The links, after all are up and the aggregation node is used, or the time to return is over.
        Empty where the node is not used."""
        assert self._job is not None
        deadline = time.monotonic() + self._return_s
        while True:
            state = self._job.state()
            has_node = all(uses_node(known["stats"]) for known in state.values())
            up = links(state, self._proven) if has_node else []
            if len(up) == self._all or time.monotonic() > deadline:
                break
            self._job.ops([0])
        if len(up) == self._all:
            for operation in self._job.ops(list(range(len(self._cases)))):
                self._job.baseline.learn(operation)
        return up

    def _renew(self) -> None:
        if self._job is not None:
            self.end()
        self._record.notes["jobs"] += 1
        job = Job(self._lab, self._cases, **self._settings)
        try:
            job.calibrate()
        except BaseException:
            job.kill()
            raise
        self._job = job

    def end(self) -> None:
        """Ends the job: it must hold no more than it did at first, and leave in order."""
        job, self._job = self._job, None
        if job is None:
            return
        try:
            grown = no_leaks(job, self._at_first)
            after = job.state()
        except BaseException:
            job.kill()
            raise
        self._record.notes["rss_growth_kib"] = max(grown, self._record.notes.get("rss_growth_kib", 0))
        for name in _COUNTERS:
            total = sum(each["stats"][name] for each in after.values())
            self._record.notes[name] = self._record.notes.get(name, 0) + total
        self._record.checked += job.checked
        self._record.noise += job.baseline.noise
        job.close()


def no_leaks(job: Job, before: Dict[int, Dict[str, Any]]) -> int:
    """Raises Broken when a rank goes on holding more than before; KiB by which memory has grown."""
    deadline = time.monotonic() + _LEFT_S
    while True:
        after = job.state()
        try:
            check_leaks(before, after)
        except Broken:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)
            continue
        return max(now["rss_kib"] - before[rank]["rss_kib"] for rank, now in after.items())


def check_leaks(before: Dict[int, Dict[str, Any]], after: Dict[int, Dict[str, Any]]) -> None:
    """Raises Broken when a rank has more descriptors or threads than before."""
    for rank, now in after.items():
        at_first = before[rank]
        if len(now["descriptors"]) > len(at_first["descriptors"]):
            more = Counter(now["descriptors"]) - Counter(at_first["descriptors"])
            raise Broken(f"rank {rank} leaks descriptors: {len(at_first['descriptors'])} before the "
                         f"faults, {len(now['descriptors'])} after them; new: "
                         f"{', '.join(more.elements())}")
        if now["threads"] > at_first["threads"]:
            raise Broken(f"rank {rank} leaks threads: {at_first['threads']} before the faults, "
                         f"{now['threads']} after them")
