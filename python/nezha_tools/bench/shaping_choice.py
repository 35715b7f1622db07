"""Which way of shaping each size is measured with, and by how much the lab's buckets may flatter it.

A bucket lets its content through at once. Where that could make an operation look more than 10 % faster
than the wires allow, the exact way of shaping is used, which costs more processor time.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby
from typing import Callable, List, Optional, Sequence, TypeVar

from ..lab import shaping
from .formulas import bus_factor
from .rows import Row
from .spec import BenchSpec

Result = TypeVar("Result")
MOST = 0.1  # above it `of_limit` does not hold


@dataclass(frozen=True)
class Measured:
    """How one size is measured: shaping.BULK or EXACT, and what the buckets may flatter: the share by
    which a rate may look higher than it is; None where they could hold the whole operation."""

    shaping: str
    flattery: Optional[float]


def choose(spec: BenchSpec, ranks: int, rates: Sequence[int], fixed: Optional[str] = None,
           burst: int = 0) -> List[Measured]:
    """One entry a size of `spec`. rates: of one node's ports, bit/s. fixed: the way that was asked for;
    burst: bytes of the bucket that was asked for, 0 for none."""
    def flattery(size: int, kind: str) -> Optional[float]:
        buckets = sum(shaping.bucket(rate, kind, burst) for rate in rates)
        return shaping.flattery(bus_factor(spec.collective, ranks) * size, buckets)

    are_alike = all(shaping.way(rate, shaping.BULK) == shaping.way(rate, shaping.EXACT)
                    for rate in rates)
    measured = []
    for size in spec.sizes:
        share = flattery(size, shaping.BULK)
        is_honest = share is not None and share <= MOST and not are_alike
        kind = fixed or (shaping.BULK if is_honest else shaping.EXACT)
        measured.append(Measured(kind, flattery(size, kind)))
    return measured


def note(rows: Sequence[Row], measured: Sequence[Measured]) -> None:
    """Writes into each row how its size was measured."""
    for row, each in zip(rows, measured):
        row["shaping"], row["flattery"] = each.shaping, each.flattery


def of_limit_holds(row: Row) -> bool:
    """Whether the lab's buckets leave the row's `of_limit` a meaning."""
    return "shaping" not in row or row["flattery"] is not None and row["flattery"] <= MOST


def in_parts(sizes: Sequence[int], measured: Sequence[Measured],
             run: Callable[[str, List[int]], List[Result]]) -> List[Result]:
    """run(way of shaping, sizes) for each run of neighbouring sizes with one way; their results."""
    results: List[Result] = []
    pairs = list(zip(sizes, measured))
    for kind, part in groupby(pairs, key=lambda pair: pair[1].shaping):
        results += run(kind, [size for size, _ in part])
    return results
