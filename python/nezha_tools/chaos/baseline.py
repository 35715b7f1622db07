"""The program's undisturbed throughput, with which the time under faults is compared.

Pure, on the timeline. It is measured when the mean over a stretch of time has hardly changed for as long
as that stretch: what start-up, loading of data or heartbeats move is no measure of a program. Where
nothing can be measured there is a sentence that says why, and no number.
"""

from __future__ import annotations

from typing import List, NamedTuple, Optional, Sequence

from .throughput import Span, Timeline

# Faults begin after so long without a steady throughput, counted from the first traffic.
PATIENCE_S = 30.0
# The stretches: longer ones are for programs that compute between their messages.
_STRETCHES_S = (2.5, 6.0, 12.0)
STEADY_S = 2 * _STRETCHES_S[0]
FAULTS_BEGIN = (f"when the program's throughput has been steady for {STEADY_S:g} s or more, or "
                f"{PATIENCE_S:g} s after its first traffic")
# Compared at so many places; steady when the least is this share of the most.
_PLACES, _ALIKE = 10, 0.8
# A program that moves this much more between the faults than before them was not yet at work.
_GREW = 1.25
# Of a node: heartbeats take less than a tenth of it. Slow rails: a hundredth of what they carry.
_LEAST_BPS, _LEAST_SHARE = 1e6, 0.01


class Baseline(NamedTuple):
    """rails_bps: of each rail, all nodes together; None: not measured, and missing says why."""

    rails_bps: Optional[List[float]]
    missing: Optional[str]

    @property
    def total_bps(self) -> float:
        """All rails together; 0 when not measured."""
        return sum(self.rails_bps or [])


def least_bps(rates_bps: Sequence[int], nodes: int) -> float:
    """What all nodes together move at least when the program is at work. rates_bps: of the rails, 0 =
    unlimited."""
    limits = [_LEAST_SHARE * sum(rates_bps)] if all(rates_bps) else []
    return nodes * min([_LEAST_BPS, *limits])


def steady_since(timeline: Timeline, first_traffic_s: float, least: float) -> Optional[float]:
    """Since when the throughput has been steady, and at least `least` bit/s; None: it is not (yet).

    It is the beginning of the latest stretch: the earliest may still have some of the start in it.
    """
    for stretch_s in _STRETCHES_S:
        begin = timeline.end_s - 2 * stretch_s
        if begin < first_traffic_s:
            return None
        starts = [begin + stretch_s * place / _PLACES for place in range(_PLACES + 1)]
        moved = [sum(timeline.mean_bps([(start, start + stretch_s)]) or []) for start in starts]
        if min(moved) >= max(least, _ALIKE * max(moved)):
            return starts[-1]
    return None


def measure(timeline: Timeline, undisturbed: Optional[Span], calm: Sequence[Span],
            at_work_s: float) -> Baseline:
    """The mean over `undisturbed`: from the steady beginning to the first fault; None: never steady.

    calm: the time after the first fault that no fault can be blamed for. at_work_s: from the first
    traffic to the program's end.
    """
    if undisturbed is None and at_work_s < PATIENCE_S:
        return Baseline(None, f"the program ended {at_work_s:.1f} s after its first traffic, and before "
                        f"its throughput had been steady for {STEADY_S:g} s")
    if undisturbed is None:
        return Baseline(None, f"the program's throughput was not steady in the {PATIENCE_S:g} s after "
                        "its first traffic, or hardly more than nothing")
    rates = timeline.mean_bps([undisturbed])
    if not rates or not sum(rates):
        return Baseline(None, "the first fault began at once")
    later = sum(timeline.mean_bps(calm) or [])
    if later > _GREW * sum(rates):
        return Baseline(None, f"the program moved {later / sum(rates):.1f} times as much between the "
                        "faults as before the first one, so it was not yet at its work then")
    return Baseline(rates, None)
