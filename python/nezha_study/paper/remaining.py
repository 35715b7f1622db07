"""How long the rest takes, from estimates and from how far earlier ones were off. Pure."""

from __future__ import annotations

from typing import List

_TRUST_S = 20.0  # estimates count as if so many seconds of them had come true


class Remaining:
    """Corrects estimates by what was measured. All times in seconds."""

    def __init__(self, estimates: List[float]) -> None:
        """estimates: of all jobs, in their order."""
        self._left = list(estimates)
        self._estimated = self._taken = _TRUST_S

    def done(self, seconds: float) -> None:
        """The next job took so long."""
        self._estimated += self._left.pop(0)
        self._taken += seconds

    @property
    def factor(self) -> float:
        """How many times as long as estimated jobs take."""
        return self._taken / self._estimated

    def seconds(self) -> float:
        """Of all jobs that are left."""
        return self.factor * sum(self._left)

    def next(self) -> float:
        """Of the next job; 0 where none is left."""
        return self.factor * self._left[0] if self._left else 0.0

    def text(self) -> str:
        """For people: `about 14 minutes left`."""
        minutes = self.seconds() / 60
        if minutes < 1:
            return "less than a minute left"
        rounded = round(minutes)
        return f"about {rounded} minute{'' if rounded == 1 else 's'} left"
