"""One launch of a matrix-vector bench, and what its ranks measured."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar, Dict, List, Optional

from .worker_records import Result, Spec

BYTES = 8  # of an element: float64, in which all sums here are exact


@dataclass
class MatvecSpec(Spec):
    """The same on every rank: a matrix of rows x columns by rows, times a vector by parts.

    iterations: timed ones; None: enough for `seconds`. devices: whose counters a host's first rank reads.
    """

    rows: int
    columns: int
    iterations: Optional[int] = None
    seconds: float = 1.0
    devices: List[str] = field(default_factory=list)
    config: Dict[str, str] = field(default_factory=dict)


@dataclass
class Launch(Result):
    """What one launch measured, an entry for each timed iteration.

    iteration_us: of the slowest rank. gather_us: in the all_gather, the mean of all ranks; who comes
    early waits there. algorithms: that the all_gathers ran by. wire_bytes: that all hosts sent to each
    other in an iteration, headers included. wrong: elements of the gathered vector and of the product.
    """

    PREFIX: ClassVar[str] = "@matvec "

    iteration_us: List[float]
    gather_us: List[float]
    algorithms: List[str]
    hosts: int
    wire_bytes: float
    wrong: int
