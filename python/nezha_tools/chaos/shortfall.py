"""The seconds in which a program moved less than was possible.

Pure, on the timeline. Rates are bits per second that a node receives, on average over the nodes.

What was possible while no fault is active: what the same program moved before the first fault. While
faults are active: that, but at most what the node that is hit worst can still receive, as collectives go
at the pace of their slowest node; a rail that is cut, silent in a direction, flapping or delayed counts
as carrying nothing there. Nothing is said of times in which a rank is stopped, or after one was killed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Tuple

from .faults import SLOWER, Injection
from .throughput import Span, Timeline

# Below is what moved less than this share of what was possible.
BELOW = 0.8
# Times are judged in windows of the first of these lengths for which the undisturbed program is below
# in at most _UNEVEN of them: a program that computes for a second moves nothing in that second.
_WINDOWS_S = (1.0, 2.0, 4.0)
_UNEVEN = 0.1
_SLIDE_S = 0.25
_FOR_EVER = float("inf")


class Lasting(NamedTuple):
    """A fault in time, a sample's length longer on either side than it was."""

    injection: Injection
    began_s: float
    ended_s: float


@dataclass(frozen=True)
class Course:
    """What is judged. undisturbed: the time in which baseline_bps, of one node, was measured.

    rates_bps: of the rails, 0 = unlimited. until_s: the end of the program's traffic.
    """

    nodes: int
    rates_bps: Sequence[int]
    baseline_bps: float
    undisturbed: Span
    faults: Sequence[Lasting]
    until_s: float


class Window(NamedTuple):
    """A stretch of time with the same faults; possible_bps: None = unknown, not judged."""

    from_s: float
    to_s: float
    carried_bps: float
    possible_bps: Optional[float]
    active: Tuple[int, ...]

    @property
    def is_below(self) -> bool:
        """Whether more was possible."""
        return self.possible_bps is not None and self.carried_bps < BELOW * self.possible_bps

    def to_dict(self) -> Dict[str, Any]:
        """For JSON."""
        return {"from_s": round(self.from_s, 3), "to_s": round(self.to_s, 3),
                "carried_bps": round(self.carried_bps),
                "possible_bps": None if self.possible_bps is None else round(self.possible_bps),
                "faults": list(self.active)}


def judge(timeline: Timeline, course: Course) -> Optional[Dict[str, Any]]:
    """What was below, JSON-ready; None where the undisturbed program is so uneven that nothing can be
    said of windows of seconds."""
    length_s = _window_length(timeline, course)
    if length_s is None:
        return None
    stretches = _stretches(course)
    windows = [window for span, active in stretches
               for window in _windows(timeline, course, span, active, length_s)]
    calm = [window for window in windows if not window.active]
    end_s = max((fault.ended_s for fault in course.faults), default=course.until_s)
    before = _windows(timeline, course, course.undisturbed, [], length_s)
    return {
        "share": BELOW, "window_s": length_s,
        "undisturbed": _tally(before), "calm": _tally(calm),
        "after_last_fault": _tally([window for window in calm if window.from_s >= end_s]),
        "during_faults": _tally([window for window in windows if window.active]),
        "windows": [window.to_dict() for window in windows if window.is_below],
        "possible": [_window(timeline, course, span, active).to_dict() for span, active in
                     [(course.undisturbed, []), *stretches]],
    }


def _window_length(timeline: Timeline, course: Course) -> Optional[float]:
    begin, end = course.undisturbed
    for length_s in _WINDOWS_S:
        if end - begin < length_s:
            break
        starts = [begin + _SLIDE_S * step for step in range(1 + int((end - begin - length_s) / _SLIDE_S))]
        below = [_window(timeline, course, (start, start + length_s), []).is_below for start in starts]
        if sum(below) <= _UNEVEN * len(below):
            return length_s
    return None


def _stretches(course: Course) -> List[Tuple[Span, List[Lasting]]]:
    """From the first fault on: the spans between two changes, and the faults that are active in them."""
    begin, until = course.undisturbed[1], course.until_s
    lasting = [fault._replace(ended_s=_FOR_EVER) if fault.injection.kind == "kill" else fault
               for fault in course.faults]
    edges = sorted({begin, until, *(min(max(edge, begin), until) for fault in lasting
                                    for edge in (fault.began_s, fault.ended_s))})
    return [((a, b), [fault for fault in lasting if fault.began_s < b and fault.ended_s > a])
            for a, b in zip(edges, edges[1:])]


def _windows(timeline: Timeline, course: Course, span: Span, active: Sequence[Lasting],
             length_s: float) -> List[Window]:
    """The span in windows of nearly that length; none where it is shorter than one."""
    seconds = span[1] - span[0]
    count = round(seconds / length_s) if seconds >= length_s else 0
    edges = [span[0] + seconds * index / count for index in range(count + 1)] if count else []
    return [_window(timeline, course, each, active) for each in zip(edges, edges[1:])]


def _window(timeline: Timeline, course: Course, span: Span, active: Sequence[Lasting]) -> Window:
    carried = sum(timeline.mean_bps([span]) or [0.0]) / course.nodes
    return Window(span[0], span[1], carried, _possible(course, active),
                  tuple(sorted(fault.injection.number for fault in active)))


def _possible(course: Course, active: Sequence[Lasting]) -> Optional[float]:
    if not active:
        return course.baseline_bps
    if any(fault.injection.rail is None for fault in active) or not all(course.rates_bps):
        return None
    left = {}
    for injection in (fault.injection for fault in active):
        slower = SLOWER.get(injection.kind)
        left[injection.node, injection.rail] = 1 / slower if slower else 0.0
    return min([course.baseline_bps,
                *(sum(rate * left.get((node, rail), 1.0) for rail, rate in enumerate(course.rates_bps))
                  for node in range(course.nodes))])


def _tally(windows: Sequence[Window]) -> Dict[str, float]:
    judged = [window for window in windows if window.possible_bps is not None]
    return {"below_s": round(sum(w.to_s - w.from_s for w in judged if w.is_below), 2),
            "judged_s": round(sum(w.to_s - w.from_s for w in judged), 2)}
