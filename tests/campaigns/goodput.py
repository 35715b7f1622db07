"""Goodput of one collective while the network changes."""

from __future__ import annotations

import statistics
import time
from typing import Callable, List, Optional, Sequence

from campaigns.cases import Case
from campaigns.job import Job
from campaigns.measure import Operation

NODES = 2
RATE = 200_000_000  # bit/s of each rail: slow enough that the wires are the limit here
RAILS = 2
# With two ranks every byte of the buffer crosses the wire once in each direction.
CASE = Case("all_reduce", 1 << 19, "float32", "ring")
BYTES = (1 << 19) * 4
PAYLOAD_SHARE = 1448 / 1514  # of a full frame on the wire
GOOD = 0.9
_BATCH = 4
_STEADY = 3  # operations in a row


def of(operations: Sequence[Operation]) -> float:
    """Median goodput, bit/s."""
    return statistics.median(8 * BYTES / max(op.seconds, 1e-9) for op in operations)


def stream(job: Job, seconds: float, least: int = 1) -> List[Operation]:
    """Operations for that long, and at least so many."""
    end = time.monotonic() + seconds
    done: List[Operation] = []
    while time.monotonic() < end or len(done) < least:
        done += job.ops([0] * _BATCH)
    return done


def regained(job: Job, level: float, since: float, limit_s: float,
             change: Optional[Callable[[], float]] = None) -> float:
    """Seconds from `since` (or from what change() returns) until operations of that goodput come one
    after another; at most limit_s."""
    cases = [0] * _BATCH
    job.start_ops(cases)
    if change is not None:
        since = change()
    seen = job.finish_ops(cases)
    while True:
        for first in range(len(seen) - _STEADY + 1):
            run = seen[first:first + _STEADY]
            if run[0].start >= since and all(8 * BYTES / op.seconds >= level for op in run):
                return min(limit_s, run[0].end - since)
        if time.monotonic() > since + limit_s:
            return limit_s
        seen = seen[-_STEADY:] + job.ops(cases)
