"""R9: a host is gone without a goodbye: no rail of it answers any more."""

from __future__ import annotations

import random
import time
from typing import List

from nezha.lab import Lab

from campaigns.campaign import Campaign, Record
from campaigns.cases import mixed
from campaigns.job import Job
from campaigns.lines import Broken
from campaigns.measure import Figure, spread
from campaigns.nemesis import Nemesis
from campaigns.r07_sigkill import survivors_errors

NODES = 3
RAILS = 2
_OUTAGE_S = 1.8  # what the job allows
_OPERATIONS = 5_000  # for seconds, so that no slow machine ends them before the fault is there
_IDLE_S = 5.0  # in which an idle job has to notice: 2.5 s of silence at least, and the outage


class Vanish(Campaign):
    """Every second time while nothing runs."""

    id = "R9"
    title = "hosts vanished"
    wanted = (1, 10, 60)
    budget_s = 120.0

    def run(self, record: Record) -> None:
        for number, rng in record.faults():
            with Lab(NODES, ["1gbit"] * RAILS) as lab, Nemesis(lab) as nemesis:
                job = Job(lab, mixed(1 << 16), outage_s=_OUTAGE_S)
                try:
                    job.calibrate(2)
                    self._one(record, job, nemesis, rng, idle=number % 2 == 1)
                    record.checked += job.checked
                finally:
                    job.kill()

    def _one(self, record: Record, job: Job, nemesis: Nemesis, rng: random.Random,
             idle: bool) -> None:
        victim = rng.randrange(NODES)
        others = [rank for rank in range(NODES) if rank != victim]
        cases = [rng.randrange(len(job.cases)) for _ in range(_OPERATIONS)]
        begin = 0.0
        if not idle:
            begin = job.start_ops(cases)
            time.sleep(max(0.0, begin - time.monotonic()) + rng.uniform(0, 0.1))
        gone = [nemesis.black_hole(victim, rail, "both") for rail in range(RAILS)][-1]
        if idle:
            time.sleep(_IDLE_S)
            begin = job.start_ops(cases)
        errors = survivors_errors(job.collect(others), f"rank {victim}")
        dropped = sum(nemesis.dropped(victim, rail) for rail in range(RAILS))
        if not dropped:
            raise Broken(f"the fault did not happen: node {victim} lost no packet")
        last = max(error["at"] for error in errors)
        record.add(rank=victim, idle=idle, dropped=dropped,
                   told=last - (begin if idle else gone))

    def figures(self, record: Record) -> List[Figure]:
        busy, idle = record.of("told", idle=False), record.of("told", idle=True)
        found = spread("busy: survivors told", busy, most=2000)[::2]
        if idle:
            found += spread(f"idle for {_IDLE_S:g} s: next operation failed", idle, most=100)[::2]
        return found
