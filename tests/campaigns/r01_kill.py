"""R1: TCP connections are destroyed at random moments and bytes of running collectives."""

from __future__ import annotations

import random
from typing import Any, Dict, List, Optional, Sequence, Tuple

from nezha.lab import Lab

from campaigns.campaign import Campaign, Record
from campaigns.cases import Case, mixed
from campaigns.job import Job
from campaigns.measure import Figure, percentile, spread, stall_of
from campaigns.nemesis import Nemesis
from campaigns.rails import FABRIC, RAILS, Series, between_nodes, lost_share

_OPS = 4  # of a batch; the fault comes in one of the first three


class Kill(Campaign):
    """Half of the kills at a moment, half at a byte; one pair of nodes or all pairs of a node."""

    id = "R1"
    title = "connections killed"
    wanted = (20, 2000, 10000)
    budget_s = 540.0
    nodes, ranks_per_node = 3, 1
    cases: Sequence[Case] = mixed(1 << 18)
    settings: Dict[str, Any] = {}  # configuration of the job
    rails: Sequence[str] = ["1gbit"] * RAILS
    struck: Sequence[int] = range(RAILS)  # rails that faults may strike

    def run(self, record: Record) -> None:
        with Lab(self.nodes, list(self.rails), ranks_per_node=self.ranks_per_node) as lab, \
                Nemesis(lab) as nemesis, Series(lab, self.cases, record, **self.settings) as series:
            for _number, rng in record.faults():
                job, up = series.ready()
                targets = [link for link in between_nodes(lab, up) if link[1] in self.struck]
                self._one(record, job, nemesis, rng, targets)
                self.confirm(job)

    def confirm(self, job: Job) -> None:
        """Raises Broken where the fault met other operations than those of this campaign."""

    def choose(self, rng: random.Random,
               targets: List[Tuple[int, int, int]]) -> Tuple[int, int, Optional[int]]:
        """Node, rail and peer whose connections are killed; None: those to all peers."""
        node, rail, peer = rng.choice(targets)
        whole = rng.random() < 0.3 and all((node, rail, p) in targets
                                           for p in range(self.nodes) if p != node)
        return node, rail, None if whole else peer

    def _one(self, record: Record, job: Job, nemesis: Nemesis, rng: random.Random,
             targets: List[Tuple[int, int, int]]) -> None:
        node, rail, victim = self.choose(rng, targets)
        cases = [rng.randrange(len(job.cases)) for _ in range(_OPS)]
        usual = sum(job.baseline.median(case) for case in cases[:3])
        when: Dict[str, Any]
        begin = job.start_ops(cases, lead=0.006)
        by_byte = rng.random() < 0.5
        if by_byte:
            when = {"bytes": rng.randrange(1, 1 << 18), "wait": 0.006 + usual}
        else:
            when = {"at": begin + rng.uniform(0, 1.3) * usual}
        nemesis.plan_kill(node, rail, victim, **when)
        killed = nemesis.killed(node)
        found = stall_of(job.finish_ops(cases), killed.at, lost_share(job), job.baseline)
        record.add(node=node, rail=rail, peer=victim, by_byte=by_byte, killed=len(killed.sent),
                   bytes=killed.sent, during=found.during, extra=found.extra, stall=found.stall)

    def figures(self, record: Record) -> List[Figure]:
        during = sum(1 for s in record.samples if s["during"])
        return [*spread("stall", record.of("stall"), 10, 50, 250),
                Figure("extra time p99", _ms(percentile(record.of("extra"), 0.99))),
                Figure("in mid-operation", float(during), None, "")]


class KillEncrypted(Kill):
    """The same with encrypted rails, whose bytes and records no longer end together."""

    id = "R1-TLS"
    title = "encrypted connections killed"
    wanted = (8, 200, 1000)
    budget_s = 60.0
    settings = {"tls": "on"}


class KillTagged(Kill):
    """The same where every record carries a tag: what lies in a half record is lost with it."""

    id = "R1-INTEGRITY"
    title = "connections with integrity=on killed"
    wanted = (8, 200, 1000)
    budget_s = 60.0
    settings = {"integrity": "on"}


class KillFabric(Kill):
    """The same on a rail of libfabric beside one of TCP: the provider's sockets are destroyed, which it
    makes again by itself, and what was in them is lost."""

    id = "R1-OFI"
    title = "connections of an RDMA rail killed"
    wanted = (8, 200, 1000)
    budget_s = 240.0
    rails = FABRIC
    struck = [FABRIC.index("ofi:1gbit")]


def _ms(seconds: Optional[float]) -> Optional[float]:
    return None if seconds is None else seconds * 1e3
