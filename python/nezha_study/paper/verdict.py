"""Whether a measurement agrees with the paper: in sign, and in order. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from typing import List, Optional, Sequence, Tuple

SAME = 0.05  # values that differ by less, as a part of the larger one, have no order


@dataclass(frozen=True)
class Claim:
    """A sentence of the paper beside what was measured. place: where the paper has it. sign: whether the
    gain or loss has the paper's sign; order: whether the things compared have the paper's order; None
    where the claim has no sign or order, or nothing was measured."""

    says: str
    place: str
    found: str
    sign: Optional[bool] = None
    order: Optional[bool] = None

    @property
    def verdict(self) -> str:
        """For people: `sign agrees, order differs`."""
        words = [f"{name} {'agrees' if value else 'differs'}"
                 for name, value in (("sign", self.sign), ("order", self.order)) if value is not None]
        return ", ".join(words) or "not compared"


def same_sign(paper: float, here: Optional[float]) -> Optional[bool]:
    """Whether both are gains, or both losses (or nothing); None where there is no measurement."""
    return None if here is None else (paper > 0) == (here > 0)


def same_order(pairs: Sequence[Tuple[float, Optional[float]]]) -> Optional[bool]:
    """Whether what was measured has the order of the paper's values: (paper's, here's) of each thing.

    Pairs whose values in the paper are the same within SAME are not compared; here such a pair has no
    order, which differs from the paper's. None where fewer than two things can be compared.
    """
    known = [(paper, here) for paper, here in pairs if here is not None]
    told: List[bool] = []
    for (paper_a, here_a), (paper_b, here_b) in combinations(known, 2):
        paper = _direction(paper_a, paper_b)
        if paper:
            told.append(paper == _direction(here_a, here_b))
    return all(told) if told else None


def _direction(first: float, second: float) -> int:
    """-1, 0 for the same, or 1."""
    if abs(first - second) <= SAME * max(abs(first), abs(second)):
        return 0
    return 1 if first > second else -1
