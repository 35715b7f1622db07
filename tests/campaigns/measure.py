"""Figures out of samples: percentiles, targets, and how long a fault held up the operations."""

from __future__ import annotations

import math
from collections import defaultdict, deque
from dataclasses import dataclass
from typing import Deque, Dict, List, Optional, Sequence

_REMEMBERED = 60  # fault-free operations of a kind that make its median: it follows the machine's load


def percentile(values: Sequence[float], part: float) -> Optional[float]:
    """The nearest-rank percentile, part in 0..1; None of nothing."""
    if not values:
        return None
    ordered = sorted(values)
    return ordered[max(0, math.ceil(part * len(ordered)) - 1)]


@dataclass
class Figure:
    """One number against its target. target None: only told. at_least: the target is a floor."""

    name: str
    reached: Optional[float]
    target: Optional[float] = None
    unit: str = "ms"
    at_least: bool = False

    @property
    def met(self) -> bool:
        """A figure that could not be measured is missed."""
        if self.target is None:
            return True
        if self.reached is None:
            return False
        return self.reached >= self.target if self.at_least else self.reached <= self.target


def spread(name: str, values_s: Sequence[float], p50: Optional[float] = None,
           p99: Optional[float] = None, most: Optional[float] = None) -> List[Figure]:
    """Median, 99th percentile and maximum of seconds, against targets in milliseconds."""
    wanted = (("p50", 0.5, p50), ("p99", 0.99, p99), ("max", 1.0, most))
    found = []
    for label, part, target in wanted:
        value = percentile(values_s, part)
        found.append(Figure(f"{name} {label}", None if value is None else value * 1e3, target))
    return found


@dataclass
class Operation:
    """One collective, as all its ranks saw it; times in seconds of CLOCK_MONOTONIC.

    first: when the first rank came, start: when the last one did, end: when the last rank had its
    result.
    """

    case: int
    first: float
    start: float
    end: float

    @property
    def seconds(self) -> float:
        """Never negative."""
        return max(0.0, self.end - self.start)


class Baseline:
    """Median duration of fault-free operations of each case, of the latest ones."""

    def __init__(self) -> None:
        self._seen: Dict[int, Deque[float]] = defaultdict(lambda: deque(maxlen=_REMEMBERED))
        # How much fault-free operations exceed their median: what the machine itself adds.
        self.noise: List[float] = []

    def learn(self, operation: Operation) -> None:
        """A fault-free operation. Its noise counts from the tenth of its case on."""
        seen = self._seen[operation.case]
        if len(seen) >= 10:
            self.noise.append(max(0.0, operation.seconds - self.median(operation.case)))
        seen.append(operation.seconds)

    def median(self, case: int) -> float:
        """Seconds. Raises LookupError for a case of which none was seen."""
        value = percentile(self._seen[case], 0.5)
        if value is None:
            raise LookupError(f"case {case} has not run without faults yet")
        return value


@dataclass
class Stall:
    """extra: seconds beyond the fault-free median. stall: seconds beyond what the operation takes
    at the bandwidth that was left. Both of the worst operation that the fault met or preceded."""

    extra: float = 0.0
    stall: float = 0.0
    during: bool = False  # an operation was running at the time of the fault


def stall_of(operations: Sequence[Operation], fault_at: float, lost: float,
             baseline: Baseline, since: Optional[float] = None) -> Stall:
    """lost: share of the bandwidth that the fault took, 0..1. since: when the fault may have begun
    at the earliest, where that is not known exactly."""
    found = Stall()
    for operation in operations:
        if operation.end < (fault_at if since is None else since):
            continue
        median = baseline.median(operation.case)
        before = min(max(fault_at - operation.start, 0.0), median)
        allowed = before + (median - before) / max(1.0 - lost, 0.01)
        found.extra = max(found.extra, operation.seconds - median)
        found.stall = max(found.stall, operation.seconds - allowed)
        found.during = found.during or operation.first <= fault_at <= operation.end
    return found
