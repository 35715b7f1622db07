"""R4: a rail is gone for a while and comes back; it flaps."""

from __future__ import annotations

import threading
import time
from typing import Any, Dict, List, Tuple

from nezha.lab import Lab

from campaigns import goodput
from campaigns.campaign import Campaign, Record
from campaigns.job import Job, job_in
from campaigns.lines import Broken
from campaigns.measure import Figure, percentile, spread

_LIMIT_S = 15.0  # of waiting for a rail; twice for the job to be whole before the next outage
_FLAP_S = 8.0

_SHORT: List[Dict[str, Any]] = [
    {"outage": 0.5, "silent": False}, {"outage": 0.5, "silent": True}, {"hz": 5.0, "for": 2.0}]
_FAULTS = ([{"outage": 0.5, "silent": bool(i % 2)} for i in range(10)]
           + [{"outage": 5.0, "silent": bool(i % 2)} for i in range(6)]
           + [{"hz": hz, "for": _FLAP_S} for hz in (1.0, 2.0, 5.0, 10.0)])
_SOAK = _FAULTS * 4 + [{"outage": 60.0, "silent": bool(i % 2)} for i in range(10)] + [
    {"hz": hz, "for": 600.0} for hz in (1.0, 10.0)]
_PLANS = {"short": _SHORT, "faults": _FAULTS, "soak": _SOAK}


class Return(Campaign):
    """Outages with and without a lost carrier, and flapping."""

    id = "R4"
    title = "rails that come back"
    wanted = (len(_SHORT), len(_FAULTS), len(_SOAK))
    budget_s = 200.0

    def run(self, record: Record) -> None:
        with Lab(goodput.NODES, [goodput.RATE] * goodput.RAILS) as lab, \
                job_in(lab, [goodput.CASE], record) as job:
            whole = goodput.of(job.ops([0] * 16))
            for number, rng in record.faults():
                goodput.regained(job, goodput.GOOD * whole, time.monotonic(), 2 * _LIMIT_S)
                plan = _PLANS[record.form][number]
                where = rng.randrange(goodput.NODES), rng.randrange(goodput.RAILS)
                if "hz" in plan:
                    self._flap(record, job, where, plan, whole)
                else:
                    self._outage(record, job, where, plan, whole)

    def _outage(self, record: Record, job: Job, where: Tuple[int, int], plan: Dict[str, Any],
                whole: float) -> None:
        lab = job.lab
        before = counters(lab, where)
        job.start_ops([0] * 4)
        lab.cut(*where, silent=plan["silent"])
        cut = time.monotonic()
        job.finish_ops([0] * 4)
        alone = goodput.stream(job, cut + plan["outage"] - time.monotonic())

        def restore() -> float:
            nonlocal proof
            proof = counters(lab, where)
            at = time.monotonic()
            lab.restore(*where)
            return at

        proof: Dict[str, int] = {}
        took = goodput.regained(job, goodput.GOOD * whole, 0.0, _LIMIT_S, restore)
        what = "dropped" if plan["silent"] else "carrier_losses"
        if proof[what] <= (0 if plan["silent"] else before[what]):
            raise Broken(f"the fault did not happen: {what} is {proof[what]} at {where}")
        record.add(kind="outage", outage=plan["outage"], silent=plan["silent"], returned=took,
                   alone=goodput.of(alone) / whole)

    def _flap(self, record: Record, job: Job, where: Tuple[int, int], plan: Dict[str, Any],
              whole: float) -> None:
        lab, end = job.lab, time.monotonic() + plan["for"]
        before = counters(lab, where)["carrier_losses"]

        def toggle() -> None:
            up = True
            while time.monotonic() < end:
                up = not up
                lab.flap(*where, up)
                time.sleep(0.5 / plan["hz"])

        thread = threading.Thread(target=toggle)
        thread.start()
        try:
            operations = goodput.stream(job, plan["for"])
        finally:
            thread.join()
            lab.restore(*where)
        losses = counters(lab, where)["carrier_losses"] - before
        if not losses:
            raise Broken(f"the fault did not happen: the carrier at {where} never went")
        stable = whole * (goodput.RAILS - 1) / goodput.RAILS
        seconds = operations[-1].end - operations[0].start
        record.add(kind="flap", hz=plan["hz"], losses=losses,
                   kept=8 * goodput.BYTES * len(operations) / seconds / stable)

    def figures(self, record: Record) -> List[Figure]:
        found = []
        for outage in sorted(set(record.of("outage"))):
            times = record.of("returned", outage=outage)
            found += spread(f"back after {outage:g} s", times, most=1000)[::2]
        kept = percentile([100 * value for value in record.of("kept")], 0)
        found.append(Figure("least goodput while flapping, of the stable rail's", kept, 90, "%",
                            at_least=True))
        return found


def counters(lab: Lab, where: Tuple[int, int]) -> Dict[str, int]:
    """What the kernel says about the one port there."""
    return lab.facts(*where)[0]
