"""What is measured: which weights on which rails. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import List, Optional, Sequence

_NEARLY_ALL = 99.0
# With so much more than its fair share a rail is the last to be done, unless the other one loses a
# third of its rate more; and yet the other one is at work for most of the time, so that the time shows
# what the last rail loses.
_LEAD = 1.5


@dataclass
class Experiment:
    """One run over all sizes. kind: alone, trickle, shared or together."""

    what: str
    kind: str
    weights: List[float]
    only: Optional[int] = None  # the one rail that the world has; None: all of them

    @property
    def text(self) -> str:
        """As the configuration's `weights`."""
        return ":".join(f"{weight:.6g}" for weight in self.weights)


def alone(rails: int) -> List[Experiment]:
    """Every rail in a world of its own, in their order: an idle one would be tried, and take over what
    a slow one has not delivered."""
    return [Experiment(f"rail {rail} alone", "alone", _weights(rails, {rail: 1.0}), rail)
            for rail in range(rails)]


def beside(rates: Sequence[float]) -> List[Experiment]:
    """Every pair, then all together; `rates` are those of the rails alone, in any one unit."""
    rails = len(rates)
    found: List[Experiment] = []
    for a in range(rails):
        for b in range(a + 1, rails):
            fair = {a: rates[a], b: rates[b]}
            pair = f"rails {a} and {b}"
            found += [
                Experiment(f"{pair}, 99:1", "trickle",
                           _weights(rails, {a: _NEARLY_ALL, b: 100 - _NEARLY_ALL})),
                Experiment(f"{pair}, 1:99", "trickle",
                           _weights(rails, {a: 100 - _NEARLY_ALL, b: _NEARLY_ALL})),
                Experiment(f"{pair}, even", "shared", _weights(rails, fair)),
                Experiment(f"{pair}, {a} last", "shared",
                           _weights(rails, {**fair, a: _LEAD * rates[a]})),
                Experiment(f"{pair}, {b} last", "shared",
                           _weights(rails, {**fair, b: _LEAD * rates[b]}))]
    if rails > 2:
        found.append(Experiment("all together", "together",
                                _weights(rails, dict(enumerate(rates)))))
    return found


def _weights(rails: int, given: "dict[int, float]") -> List[float]:
    largest = max(given.values())
    return [100 * given.get(rail, 0.0) / largest for rail in range(rails)]
