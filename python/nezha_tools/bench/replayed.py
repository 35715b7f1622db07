"""What a replayed all_reduce adds up, and what its sums must be: those of reference.py.

The numbers differ by element, rank, step and operation, so that a part which is misplaced, swapped,
missing, added twice or left from an earlier step shows.
"""

from __future__ import annotations

from ..cli.errors import BenchError
from ..cli.sizes import format_size
from .reference import Reference

_OPERATIONS = 1 << 20  # more than a step has


def reference(ranks: int, step: int, operation: int) -> Reference:
    """Inputs and sums of one operation of one step: float32, exact in every bit."""
    return Reference("float32", "sum", ranks, step * _OPERATIONS + operation)


def refuse_wrong(wrong: int, elements: int, rank: int, what: str) -> None:
    """Raises BenchError where `wrong` is not 0. elements: float32, of the operation; what: the step and
    the operation, such as "step 2, bucket 1"."""
    if wrong:
        raise BenchError(f"rank {rank}: {wrong} of {elements} ELEMENTS WRONG after the all_reduce of "
                         f"{what}, {format_size(4 * elements)}: nothing of this run is kept. Compare "
                         "nezha bench all_reduce in the same lab, which checks each size alone")
