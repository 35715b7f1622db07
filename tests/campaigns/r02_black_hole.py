"""R2: a rail of a node swallows packets without a word: both ways, or one way only."""

from __future__ import annotations

import random
import time
from typing import Any, Dict, List, Sequence, Tuple

from nezha.lab import Lab

from campaigns.campaign import Campaign, Record
from campaigns.cases import Case, mixed
from campaigns.job import Job
from campaigns.lines import Broken
from campaigns.measure import Figure, Operation, spread, stall_of
from campaigns.nemesis import Nemesis
from campaigns.rails import FABRIC, RAILS, RETURN_OF_SILENT_S, Series, lost_share

DIRECTIONS = ("both", "out", "in")
_BATCH_S = 0.2  # of operations, fault-free: making the hole takes some 50 ms
_HOLE_S = 0.3  # at least, so that what watches idle rails meets it, too


class BlackHole(Campaign):
    """The three ways in turn."""

    id = "R2"
    title = "rails swallowed"
    wanted = (6, 200, 1000)
    budget_s = 350.0
    rails: Sequence[str] = ["1gbit"] * RAILS
    struck: Sequence[int] = range(RAILS)  # rails that faults may strike
    nodes, ranks_per_node = 3, 1
    cases: Sequence[Case] = mixed(1 << 18)
    settings: Dict[str, Any] = {}  # of the series

    def run(self, record: Record) -> None:
        with Lab(self.nodes, list(self.rails), ranks_per_node=self.ranks_per_node) as lab, \
                Nemesis(lab) as nemesis, Series(lab, self.cases, record, **self.settings) as series:
            for number, rng in record.faults():
                job, _ = series.ready()
                self._one(record, job, nemesis, rng, DIRECTIONS[number % len(DIRECTIONS)])
                self.confirm(job)

    def confirm(self, job: Job) -> None:
        """Raises Broken where the fault met other operations than those of this campaign."""

    def choose(self, rng: random.Random) -> Tuple[int, int]:
        """Node and rail whose packets vanish."""
        return rng.randrange(self.nodes), rng.choice(self.struck)

    def _one(self, record: Record, job: Job, nemesis: Nemesis, rng: random.Random,
             direction: str) -> None:
        node, rail = self.choose(rng)
        cases = batch(job, rng)
        begin = job.start_ops(cases)
        time.sleep(max(0.0, begin - time.monotonic()) + rng.uniform(0, _BATCH_S / 4))
        before = nemesis.black_hole(node, rail, direction)
        after = time.monotonic()
        try:
            operations: List[Operation] = job.finish_ops(cases)
            while time.monotonic() < after + _HOLE_S:
                operations += job.ops(cases[:4])
            dropped = nemesis.dropped(node, rail)
        finally:
            nemesis.restore(node, rail)
        if not dropped:
            raise Broken(f"the fault did not happen: node {node} lost no packet on rail {rail}")
        found = stall_of(operations, after, lost_share(job), job.baseline, since=before)
        record.add(node=node, rail=rail, direction=direction, dropped=dropped, extra=found.extra,
                   during=found.during, stall=found.stall)

    def figures(self, record: Record) -> List[Figure]:
        found = spread("stall", record.of("stall"), 60, 250, 1000)
        for direction in DIRECTIONS:
            found += spread(f"stall {direction}", record.of("stall", direction=direction))[:1]
        return found


class BlackHoleFabric(BlackHole):
    """The same on a rail of libfabric beside one of TCP. What is being written when a rail falls silent
    costs its connection, so there is more to be made again."""

    id = "R2-OFI"
    title = "RDMA rails swallowed"
    rails = FABRIC
    struck = [FABRIC.index("ofi:1gbit")]
    settings = {"return_s": RETURN_OF_SILENT_S}
    budget_s = 420.0


def batch(job: Job, rng: random.Random) -> List[int]:
    """Random cases that take _BATCH_S together."""
    cases: List[int] = []
    total = 0.0
    while total < _BATCH_S and len(cases) < 400:
        cases.append(rng.randrange(len(job.cases)))
        total += job.baseline.median(cases[-1])
    return cases
