"""One figure or table of the paper as the pages show it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Callable, Dict, List

from .verdict import Claim

Draw = Callable[[Any], Any]  # matplotlib.pyplot -> a figure


@dataclass(frozen=True)
class Table:
    """Texts in columns. Every row has as many cells as there are headings."""

    title: str
    headings: List[str]
    cells: List[List[str]]


@dataclass
class Section:
    """key: as `--only` names it. differs: one sentence, what is different here. draw: makes the picture.
    numbers: what the tables and the picture show, for JSON."""

    key: str
    title: str
    tables: List[Table]
    claims: List[Claim]
    differs: str
    draw: Draw
    numbers: Dict[str, Any] = field(default_factory=dict)

    @property
    def line(self) -> str:
        """The whole figure in one line: how many claims agree, in sign and in order, and what differs."""
        parts = []
        for name, told in (("sign", [each.sign for each in self.claims if each.sign is not None]),
                           ("order", [each.order for each in self.claims if each.order is not None])):
            if told:
                parts.append(f"the {name} agrees in {sum(told)} of {len(told)} claims")
        words = "; ".join(parts) or "nothing is compared"
        return f"{words[0].upper()}{words[1:]}. {self.differs}"
