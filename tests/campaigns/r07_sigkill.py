"""R7: ranks are killed; the survivors are told who, and go on without them."""

from __future__ import annotations

import random
import time
from typing import Any, Dict, List, Optional, Sequence, Tuple

from nezha.lab import Lab

from campaigns.campaign import Campaign, Record
from campaigns.cases import Case, mixed
from campaigns.job import Job
from campaigns.lines import Broken
from campaigns.measure import Figure, spread

_RAIL_RATE = "1gbit"


class SigKill(Campaign):
    """A job of four loses rank after rank, until one is left."""

    id = "R7"
    title = "ranks killed"
    wanted = (3, 100, 1000)
    budget_s = 350.0
    nodes, ranks_per_node = 4, 1
    least = 2  # a job with fewer ranks is replaced
    batch = 60  # operations; the kill comes early in them
    idle = 0.2  # share of the kills between operations
    cases: Sequence[Case] = mixed(1 << 16)
    settings: Dict[str, Any] = {}  # configuration of the job

    def confirm(self, job: Job) -> None:
        """Raises Broken where the kill met other operations than those of this campaign."""

    def run(self, record: Record) -> None:
        with Lab(self.nodes, [_RAIL_RATE] * 2, ranks_per_node=self.ranks_per_node) as lab:
            job: Optional[Job] = None
            try:
                for _number, rng in record.faults():
                    if job is None or len(job.ranks) < self.least:
                        if job is not None:
                            job.close()
                        job = Job(lab, self.cases, **self.settings)
                        job.calibrate(2)
                    self._one(record, job, rng)
            except BaseException:
                if job is not None:
                    job.kill()
                raise
            if job is not None:
                job.close()

    def _one(self, record: Record, job: Job, rng: random.Random) -> None:
        members = sorted(job.ranks)  # the survivors keep their order
        victim = rng.choice(members)
        name = f"rank {members.index(victim)}"
        cases = [rng.randrange(len(job.cases)) for _ in range(self.batch)]
        idle = rng.random() < self.idle
        if idle:
            killed = job.kill_rank(victim)
            time.sleep(rng.uniform(0, 0.2))
            begin = job.start_ops(cases)
        else:
            begin, killed = self.strike(job, victim, cases, rng)
        errors = survivors_errors(job.collect(), name)
        self.confirm(job)
        asked = time.monotonic()
        answers = job.tell({"do": "shrink", "case": 0})
        for rank, answer in answers.items():
            if answer.get("error") or not answer.get("right"):
                raise Broken(f"rank {rank} after the loss of {name} of {len(members)}: {answer}")
            if (answer["world"], answer["rank"]) != (len(members) - 1,
                                                     sorted(job.ranks).index(rank)):
                raise Broken(f"rank {rank} is {answer['rank']} of {answer['world']} after shrink()")
        job.calibrate(1)
        record.checked += 2 * len(cases)
        record.add(victim=name, world=len(members), idle=idle,
                   told=max(error["at"] for error in errors) - max(killed, begin if idle else 0.0),
                   shrunk=max(a["shrunk"] for a in answers.values()) - asked,
                   working=max(a["end"] for a in answers.values()) - asked)

    def strike(self, job: Job, victim: int, cases: List[int],
               rng: random.Random) -> Tuple[float, float]:
        """Kills a rank in the middle of operations: when those began, and when it died."""
        begin = job.start_ops(cases)
        usual = sum(job.baseline.median(case) for case in cases)
        time.sleep(max(0.0, begin - time.monotonic()) + rng.uniform(0, 0.3) * usual)
        return begin, job.kill_rank(victim)

    def figures(self, record: Record) -> List[Figure]:
        told = record.of("told")
        return [*spread("survivors told", told, p50=200, p99=1000),
                *spread("shrink and the next all_reduce", record.of("working"), most=2000)]


def survivors_errors(answers: Dict[int, Any], name: str) -> List[Dict[str, Any]]:
    """The error of every rank, which must be a lost peer of that name. Raises Broken."""
    errors = []
    for rank, answer in answers.items():
        error = answer.get("error")
        if error is None:
            raise Broken(f"rank {rank} finished its operations without {name}")
        if error["type"] != "PeerLost" or name not in error["message"]:
            raise Broken(f"rank {rank} was to be told of {name}: {error}")
        errors.append(error)
    return errors
