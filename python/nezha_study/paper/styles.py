"""How curves of combinations are drawn: each with a colour, a marker and a line of its own everywhere."""

from __future__ import annotations

from typing import Any, Dict

from nezha_tools.cli import figures
from .combinations import ALL, Combination

# By the place in ALL: one network alone is dashed or dotted, two equal ones are solid.
_LINES = ("--", ":", "-.", "-", (0, (6, 1)), (0, (3, 1, 1, 1)), (0, (8, 2, 1, 2)),
          (0, (3, 1, 1, 1, 1, 1)))


def curve(combination: Combination) -> Dict[str, Any]:
    """For plot()."""
    place = ALL.index(combination)
    return {**figures.curve(place), "linestyle": _LINES[place]}
