"""Rails that disturb each other: times predicted from costs, and costs found from times. Pure.

Units: bytes that one rank sends, seconds, seconds per byte. `lost[i][j]` is the part of its rate that
rail i loses while rail j runs, too.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import List, Mapping, Optional, Sequence, Tuple

import numpy as np

from .formulas import median

LOST_MAX = 0.95  # however many rails disturb one, it keeps a twentieth of its rate
_STEP = 0.1  # of the first, coarse search
_FINEST = 1e-4
Matrix = List[List[float]]


@dataclass
class Measurement:
    """One size under one division of the bytes. `sent[i]`: bytes of one rank on rail i."""

    what: str
    size: int
    time_s: float
    sent: List[float]

    @property
    def used(self) -> List[int]:
        """The rails that carried something."""
        return [rail for rail, amount in enumerate(self.sent) if amount > 0]


@dataclass
class Costs:
    """Everything that is known: one startup and one cost of a byte for each rail, and the matrix."""

    startup_s: List[float]
    s_per_byte: List[float]
    lost: Matrix
    split_cost_s: float = 0.0
    trickle: Matrix = field(default_factory=list)  # lost to a rail that carries only 1 %


def predict(costs: Costs, sent: Sequence[float]) -> float:
    """Seconds in which every rail has sent its bytes: a rail disturbs others from its startup on
    until it is done. Rails with 0 bytes do nothing."""
    used = [rail for rail, amount in enumerate(sent) if amount > 0]
    waits = {rail: costs.startup_s[rail] for rail in used}
    left = {rail: float(sent[rail]) for rail in used}
    now = 0.0
    while left:
        busy = [rail for rail in left if waits[rail] <= now]
        rates = {rail: _rate(costs, rail, busy) for rail in busy}
        next_s = min([now + left[rail] / rates[rail] for rail in busy]
                     + [waits[rail] for rail in left if waits[rail] > now])
        for rail in busy:
            left[rail] -= rates[rail] * (next_s - now)
            if left[rail] <= 1e-9 * sent[rail]:
                del left[rail]
        now = next_s
    return now + (costs.split_cost_s if len(used) > 1 else 0.0)


def _rate(costs: Costs, rail: int, busy: Sequence[int]) -> float:
    lost = sum(costs.lost[rail][other] for other in busy if other != rail)
    return (1.0 - min(lost, LOST_MAX)) / costs.s_per_byte[rail]


def fit_alone(points: Sequence[Tuple[float, float]]) -> Tuple[float, float]:
    """(startup, seconds per byte) of the line through (bytes, seconds) with the smallest relative
    errors; the startup is never negative. Raises ValueError without two different sizes."""
    if len({amount for amount, _ in points}) < 2:
        raise ValueError("a rail's startup and rate need two sizes at least")
    amounts, seconds = np.array(points, float).T
    slope, startup = np.polyfit(amounts, seconds, 1, w=1 / seconds)
    if slope > 0 and startup >= 0:
        return float(startup), float(slope)
    relative = amounts / seconds
    return 0.0, float(relative.sum() / (relative @ relative))


def fit(alone: Mapping[int, Sequence[Measurement]], shared: Sequence[Measurement],
        trickles: Sequence[Measurement]) -> Costs:
    """All costs from what was measured.

    alone: by rail; shared: two rails, both with much to do; trickles: two rails, one with about a
    percent of the bytes. Raises ValueError where a rail was measured at one size only.
    """
    lines = [fit_alone([(each.sent[rail], each.time_s) for each in alone[rail]])
             for rail in range(len(alone))]
    rails = len(lines)
    costs = Costs([line[0] for line in lines], [line[1] for line in lines], _zeros(rails))
    split_costs = []
    for a, b in sorted({(each.used[0], each.used[1]) for each in shared if len(each.used) == 2}):
        of_pair = [each for each in shared if each.used == [a, b]]
        costs.lost[a][b], costs.lost[b][a], split_cost = _fit_pair(costs, (a, b), of_pair)
        split_costs.append(split_cost)
    costs.split_cost_s = median(split_costs) if split_costs else 0.0
    costs.trickle = _trickles(costs, trickles)
    return costs


def _zeros(rails: int) -> Matrix:
    return [[0.0] * rails for _ in range(rails)]


def _largest(found: Sequence[Measurement]) -> List[Measurement]:
    """The upper half of the sizes: below, startup counts for more than the rates."""
    sizes = sorted({each.size for each in found})
    return [each for each in found if each.size in sizes[len(sizes) // 2:]]


def _fit_pair(costs: Costs, pair: Tuple[int, int], found: Sequence[Measurement],
              ) -> Tuple[float, float, float]:
    """What each of the two loses to the other, and what using both costs: the smallest relative
    errors, looked for coarsely everywhere and then finer around the best."""
    first, second = pair
    trial = Costs(costs.startup_s, costs.s_per_byte, _zeros(len(costs.startup_s)))

    def judge(lost: Tuple[float, float]) -> Tuple[float, float]:
        """(errors, cost of splitting) with these losses."""
        trial.lost[first][second], trial.lost[second][first] = lost
        late = [(each.time_s - predict(trial, each.sent), each.time_s) for each in found]
        split = max(0.0, sum(rest / time ** 2 for rest, time in late)
                    / sum(1 / time ** 2 for _, time in late))
        return sum(((rest - split) / time) ** 2 for rest, time in late), split

    grid = [index * _STEP for index in range(int(LOST_MAX / _STEP) + 1)]
    best = min(((a, b) for a in grid for b in grid), key=judge)
    least, step = judge(best), _STEP / 2
    while step > _FINEST / 2:
        around = [(min(max(best[0] + a * step, 0.0), LOST_MAX),
                   min(max(best[1] + b * step, 0.0), LOST_MAX))
                  for a in (-1, 0, 1) for b in (-1, 0, 1) if a or b]
        nearer = min(around, key=judge)
        if judge(nearer) < least:
            best, least = nearer, judge(nearer)
        else:
            step /= 2
    return best[0], best[1], least[1]


def _trickles(costs: Costs, found: Sequence[Measurement]) -> Matrix:
    """The paper's experiment: what a rail with nearly all bytes loses to one with a trickle."""
    result = _zeros(len(costs.startup_s))
    free = Costs(costs.startup_s, costs.s_per_byte, _zeros(len(costs.startup_s)))
    for each in _largest(found):
        if len(each.used) != 2:
            continue
        main = max(each.used, key=lambda rail: each.sent[rail])
        other = sum(each.used) - main
        lost = 1.0 - predict(free, each.sent) / each.time_s
        result[main][other] = max(result[main][other], lost, 0.0)
    return result


@dataclass
class Rule:
    """The paper's "3.5 times" for one pair. limit None: whatever the ratio, the slower one helps."""

    fast: int
    slow: int
    ratio: float
    limit: Optional[float]

    @property
    def helps(self) -> bool:
        """Whether the slower rail still makes large operations quicker."""
        return self.limit is None or self.ratio < self.limit


def rule(costs: Costs, first: int, second: int) -> Rule:
    """(1 - lost by the slow) / lost by the fast, against how many times slower the slow one is."""
    fast, slow = sorted((first, second), key=lambda rail: costs.s_per_byte[rail])
    disturbed = costs.lost[fast][slow]
    limit = (1.0 - costs.lost[slow][fast]) / disturbed if disturbed > 0 else None
    return Rule(fast, slow, costs.s_per_byte[slow] / costs.s_per_byte[fast], limit)
