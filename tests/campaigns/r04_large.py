"""R1, R2, R4 and R5 again, while large operations run: four asynchronous ones, or one that blocks.

What began or was called while a rail was away is to use it when it is back."""

from __future__ import annotations

import time
from typing import List

from nezha.lab import Lab

from campaigns.campaign import Campaign, Record
from campaigns.cases import Case
from campaigns.job import Job, job_in
from campaigns.lines import Broken
from campaigns.measure import Figure, percentile, spread
from campaigns.nemesis import Nemesis

_NODES = 4
_RATES = (200_000_000, 100_000_000)  # bit/s
_TOGETHER = [Case("all_reduce", 2_500_000, "float32", "ring", True)] * 4  # 10 MB each
_BLOCKING = [Case("all_reduce", 10_000_000, "float32", "ring")]
_SHAPES = {"four asynchronous": [0, 1, 2, 3], "one blocking": [4]}
_KINDS = ("cut", "reset", "black hole", "slow")
_SLOWNESS = 10
_OUTAGE_S = 1.2  # shorter than any batch, longer than a silent connection lives
_BEGINS_S = 0.1, 0.3
_ROUNDS = 3


class ReturnLarge(Campaign):
    """Kinds of faults and shapes of the load in turn. Each batch is timed against what it could have
    taken with the bandwidth that was left, and nothing lost in between."""

    id = "R4-LARGE"
    title = "large operations when rails come back"
    wanted = (2, 40, 400)
    budget_s = 240.0

    def run(self, record: Record) -> None:
        with Lab(_NODES, list(_RATES)) as lab, Nemesis(lab) as nemesis, \
                job_in(lab, [*_TOGETHER, *_BLOCKING], record) as job:
            usual = {name: min(_batch(job, cases) for _ in range(_ROUNDS))
                     for name, cases in _SHAPES.items()}
            for number, rng in record.faults():
                kind = _KINDS[number % len(_KINDS)]
                shape = list(_SHAPES)[number // len(_KINDS) % len(_SHAPES)]
                if record.form == "short":
                    shape = list(_SHAPES)[number % len(_SHAPES)]
                rail = rng.randrange(len(_RATES))
                begins = rng.uniform(*_BEGINS_S)
                cases = _SHAPES[shape]
                job.start_ops(cases, together=True)
                time.sleep(begins)
                lasted = _strike(lab, nemesis, kind, 0, rail)
                took = _took(job, cases)
                gone = 0.0 if kind == "reset" else lasted * _RATES[rail] / sum(_RATES)
                if kind == "slow":
                    gone *= 1 - 1 / _SLOWNESS
                record.add(kind=kind, shape=shape, rail=rail, took=took, usual=usual[shape],
                           late=max(0.0, took - usual[shape] - gone),
                           following=_batch(job, cases) / usual[shape])

    def figures(self, record: Record) -> List[Figure]:
        found = []
        for kind in _KINDS:
            found += spread(f"{kind}: later than the rails allowed", record.of("late", kind=kind),
                            most=1000)[::2]
        following = [100 / value for value in record.of("following")]
        found.append(Figure("goodput of the batch after it, of the usual, least",
                            percentile(following, 0), 90, "%", at_least=True))
        return found


def _strike(lab: Lab, nemesis: Nemesis, kind: str, node: int, rail: int) -> float:
    """One fault from beginning to end; for how long the rail was away. Raises Broken when it did not
    happen."""
    if kind == "reset":
        nemesis.plan_kill(node, rail, None, at=time.monotonic() + 0.01)
        nemesis.killed(node)
        return 0.0
    before = lab.facts(node, rail)[0]["carrier_losses"]
    begin = time.monotonic()
    if kind == "slow":
        lab.slow(node, rail, _RATES[rail] // _SLOWNESS)
    else:
        lab.cut(node, rail, silent=kind == "black hole")
    time.sleep(_OUTAGE_S)
    facts = lab.facts(node, rail)[0]
    happened = {"slow": facts["rate_in_bps"] < 1.1 * _RATES[rail] / _SLOWNESS,
                "cut": facts["carrier_losses"] > before,
                "black hole": nemesis.dropped(node, rail) > 0}[kind]
    lab.restore(node, rail)
    if not happened:
        raise Broken(f"the fault did not happen: {kind} of rail {rail}")
    return time.monotonic() - begin


def _batch(job: Job, cases: List[int]) -> float:
    """Seconds of one batch without a fault."""
    job.start_ops(cases, together=True)
    return _took(job, cases)


def _took(job: Job, cases: List[int]) -> float:
    operations = job.finish_ops(cases)
    return max(op.end for op in operations) - min(op.start for op in operations)
