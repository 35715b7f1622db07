"""The fastest rails that this machine can shape for a lab, so that wires and not processors are the
limit."""

from __future__ import annotations

from typing import Callable, Optional, Tuple

from ..lab import Capacity
from .lab_runner import BenchLab

LADDER = (1000, 500, 250, 100)  # Mbit/s


def fastest_rate(nodes: int, rails: int,
                 done: Callable[[None], object]) -> Tuple[int, Optional[Capacity]]:
    """(Mbit/s of each rail, what the machine can shape then) of a lab with `nodes` nodes and `rails`
    rails.

    The highest rate of LADDER at which the lab leaves a collective the processor time that it needs; the
    lowest one where none does. The capacity is None where nothing is shaped. done: called after each
    rate, which takes about two seconds. Raises LabError where a lab cannot be built.
    """
    capacity: Optional[Capacity] = None
    for mbits in LADDER:
        with BenchLab(nodes, [f"{mbits}mbit"] * rails) as lab:
            capacity = lab.lab.capacity()
        done(None)
        if capacity is None or capacity.limit == "wires":
            return mbits, capacity
    return LADDER[-1], capacity
