"""Throughput over time out of cumulative byte counters, and the times when nothing moved.

Pure. Times are seconds on whatever clock the samples have; rates are bits per second.
"""

from __future__ import annotations

import bisect
from typing import Iterable, List, Optional, Sequence, Tuple

_SAMPLES_MAX = 32_000
_STANDSTILLS_MAX = 100_000
# Less than this share of the fastest sample is standing still: heartbeats and lonely retries.
_STILL = 0.01
_STILL_SAMPLES = 3  # shorter pauses happen between any two operations

Span = Tuple[float, float]


class Timeline:
    """Bytes delivered per rail so far, at growing times. Memory is bounded: when there are too many
    samples every second one goes, which costs resolution, never bytes."""

    def __init__(self, rails: int) -> None:
        self._rails = rails
        self._times: List[float] = []
        self._bytes: List[Sequence[int]] = []
        self._step = 1
        self._skipped = 0
        self._last: Optional[Tuple[float, int]] = None
        self._fastest = 0.0
        self._still_since: Optional[Tuple[float, int]] = None
        self.standstills: List[Span] = []

    def __len__(self) -> int:
        return len(self._times)

    @property
    def end_s(self) -> float:
        """The time of the latest sample; 0 when there is none."""
        return self._last[0] if self._last else 0.0

    @property
    def busy_until_s(self) -> float:
        """Since when nothing has moved any more, or else end_s."""
        still = self._still_since
        return still[0] if still is not None and still[1] >= _STILL_SAMPLES else self.end_s

    def add(self, time_s: float, delivered: Sequence[int]) -> None:
        """One sample: bytes so far of each rail."""
        self._look_for_standstill(time_s, sum(delivered))
        self._skipped += 1
        if self._skipped < self._step:
            return
        self._skipped = 0
        self._times.append(time_s)
        self._bytes.append(tuple(delivered))
        if len(self._times) > _SAMPLES_MAX:
            self._times, self._bytes = self._times[::2], self._bytes[::2]
            self._step *= 2

    def _look_for_standstill(self, time_s: float, total: int) -> None:
        last, self._last = self._last, (time_s, total)
        if last is None or time_s <= last[0]:
            return
        rate = (total - last[1]) / (time_s - last[0])
        self._fastest = max(self._fastest, rate)
        if rate > _STILL * self._fastest:
            self._end_standstill(last[0])
        elif self._still_since is None:
            self._still_since = (last[0], 1)
        else:
            self._still_since = (self._still_since[0], self._still_since[1] + 1)

    def _end_standstill(self, time_s: float) -> None:
        still, self._still_since = self._still_since, None
        if still is not None and still[1] >= _STILL_SAMPLES and (
                len(self.standstills) < _STANDSTILLS_MAX):
            self.standstills.append((still[0], time_s))

    def delivered(self, time_s: float) -> List[float]:
        """Bytes of each rail at any time, interpolated."""
        if not self._times:
            return [0.0] * self._rails
        right = bisect.bisect_left(self._times, time_s)
        if right == 0 or right == len(self._times):
            return [float(value) for value in self._bytes[0 if right == 0 else -1]]
        before, after = self._times[right - 1], self._times[right]
        share = (time_s - before) / (after - before)
        return [a + share * (b - a) for a, b in zip(self._bytes[right - 1], self._bytes[right])]

    def mean_bps(self, spans: Iterable[Span]) -> Optional[List[float]]:
        """Mean rate of each rail over all of `spans` together; None when they have no length."""
        sums, seconds = [0.0] * self._rails, 0.0
        for start, end in spans:
            if end > start:
                seconds += end - start
                pairs = zip(self.delivered(start), self.delivered(end))
                sums = [value + b - a for value, (a, b) in zip(sums, pairs)]
        return [8 * value / seconds for value in sums] if seconds else None

    def rates(self, points: int) -> Tuple[List[float], List[List[float]]]:
        """At most `points` times, and for each rail the mean rates around them."""
        if len(self._times) < 2:
            return [], [[] for _ in range(self._rails)]
        stride = -(-(len(self._times) - 1) // points)
        edges = list(range(0, len(self._times), stride))
        times, rates = [], [[] for _ in range(self._rails)]  # type: ignore[var-annotated]
        for a, b in zip(edges, edges[1:]):
            seconds = self._times[b] - self._times[a]
            times.append((self._times[a] + self._times[b]) / 2)
            for rail in range(self._rails):
                rates[rail].append(8 * (self._bytes[b][rail] - self._bytes[a][rail]) / seconds)
        return times, rates

    def longest_standstill(self, spans: Sequence[Span]) -> float:
        """Seconds of the longest standstill that began in one of `spans`; 0 when there is none."""
        begun = [end - start for start, end in self.standstills
                 if any(a <= start < b for a, b in spans)]
        return max(begun, default=0.0)


def outside(start: float, end: float, spans: Iterable[Span]) -> List[Span]:
    """What of [start, end] belongs to none of `spans`."""
    found, at = [], start
    for a, b in sorted(spans):
        if a > at:
            found.append((at, min(a, end)))
        at = max(at, b)
        if at >= end:
            return [span for span in found if span[1] > span[0]]
    return found + [(at, end)]
