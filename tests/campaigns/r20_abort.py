"""R20: another thread aborts; every blocked call on every rank comes back."""

from __future__ import annotations

import random
import time
from typing import List

from nezha.lab import Lab

from campaigns.campaign import Campaign, Record
from campaigns.cases import mixed
from campaigns.job import Job, job_in
from campaigns.lines import Broken
from campaigns.measure import Figure, spread
from campaigns.rails import no_leaks

NODES = 3
_WAITS = ("ops", "recv", "absent")  # see the worker
_WARM = 3  # aborts before what is held is counted


class Abort(Campaign):
    """Each abort ends a communicator of its own; the job goes on."""

    id = "R20"
    title = "aborts from another thread"
    wanted = (10, 1000, 10000)
    budget_s = 200.0

    def run(self, record: Record) -> None:
        with Lab(NODES, ["1gbit", "1gbit"]) as lab, \
                job_in(lab, mixed(1 << 18), record, flight_dump="") as job:
            first = len(record.samples)
            before = job.state()
            for number, rng in record.faults():
                if number - first == _WARM:
                    before = job.state()
                self._one(record, job, rng, number)
            record.notes["rss_growth_kib"] = no_leaks(job, before)
            job.ops(list(range(len(job.cases))))  # its parent is as good as before

    def _one(self, record: Record, job: Job, rng: random.Random, number: int) -> None:
        what = rng.choice(_WAITS)
        at = time.monotonic() + 0.006 + rng.uniform(0, 0.03)
        aborter = rng.randrange(NODES)
        answers = job.tell({"do": "abort", "name": f"abort {number}", "what": what, "at": at,
                            "aborter": aborter, "case": rng.randrange(len(job.cases))})
        called = answers[aborter]["called"]
        for rank, answer in answers.items():
            error = answer["error"]
            if error is None or error["type"] != "Aborted":
                raise Broken(f"rank {rank} in {what}, aborted by rank {aborter}: {error}")
        ends = [answer["error"]["at"] - max(called, answer["began"]) for answer in answers.values()]
        record.add(what=what, aborter=aborter, back=max(0.0, *ends),
                   closed=max(answer["closed"] for answer in answers.values()))

    def figures(self, record: Record) -> List[Figure]:
        return [*spread("all ranks back", record.of("back"), most=200),
                *spread("close afterwards", record.of("closed"), most=1000)[2:]]
