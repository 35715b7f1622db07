"""R5: a rail becomes 10 or 100 times slower, and is itself again later."""

from __future__ import annotations

import time
from typing import List

from nezha.lab import Lab

from campaigns import goodput
from campaigns.campaign import Campaign, Record
from campaigns.job import job_in
from campaigns.lines import Broken
from campaigns.measure import Figure, percentile, spread

_FACTORS = (10, 100)
_ADAPT_S, _ADAPT_OPS = 1.0, 10
_MEASURED = 12
_LIMIT_S = 10.0


class Slow(Campaign):
    """Both factors in turn."""

    id = "R5"
    title = "rails slowed down"
    wanted = (2, 16, 100)
    budget_s = 120.0

    def run(self, record: Record) -> None:
        with Lab(goodput.NODES, [goodput.RATE] * goodput.RAILS) as lab, \
                job_in(lab, [goodput.CASE], record) as job:
            whole = goodput.of(job.ops([0] * 16))
            for number, rng in record.faults():
                factor = _FACTORS[number % len(_FACTORS)]
                node, rail = rng.randrange(goodput.NODES), rng.randrange(goodput.RAILS)
                job.start_ops([0] * 4)
                lab.slow(node, rail, goodput.RATE // factor)
                try:
                    first = job.finish_ops([0] * 4)
                    rate = lab.facts(node, rail)[0]["rate_in_bps"]
                    if rate > 1.1 * goodput.RATE / factor:
                        raise Broken(f"the fault did not happen: rail {rail} has {rate} bit/s")
                    goodput.stream(job, _ADAPT_S, _ADAPT_OPS)
                    steady = goodput.of(job.ops([0] * _MEASURED))
                finally:
                    lab.restore(node, rail)
                rates = goodput.RATE * (goodput.RAILS - 1 + 1 / factor) * goodput.PAYLOAD_SHARE
                back = goodput.regained(job, goodput.GOOD * whole, time.monotonic(), _LIMIT_S)
                record.add(factor=factor, reached=100 * steady / rates, back=back,
                           worst=max(op.seconds for op in first))
            record.notes["percent_of_rates_before"] = (
                100 * whole / (goodput.RATE * goodput.RAILS * goodput.PAYLOAD_SHARE))

    def figures(self, record: Record) -> List[Figure]:
        found = []
        for factor in _FACTORS:
            reached = record.of("reached", factor=factor)
            found += [Figure(f"{factor}x: goodput of the rates, median", percentile(reached, 0.5),
                             90, "%", at_least=True),
                      Figure(f"{factor}x: goodput of the rates, least", percentile(reached, 0),
                             None, "%"),
                      *spread(f"{factor}x: longest operation", record.of("worst", factor=factor))[2:],
                      *spread(f"{factor}x: back to speed", record.of("back", factor=factor))[2:]]
        return found
