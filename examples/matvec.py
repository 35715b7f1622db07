"""A matrix times a vector, again and again: the matrix lies on all ranks by rows. NumPy over Nezha.

    nezha run -n 4 python examples/matvec.py --check
    nezha lab up --nodes 2 --ranks-per-node 2 --rates 200mbit,200mbit
    nezha run --lab default python examples/matvec.py            # two hosts of two ranks
    python examples/matvec.py                                    # the same, one process

Every rank has some rows of a square matrix A and the part of the vector x that belongs to them. An
iteration gathers the whole x with one all_gather, multiplies its rows by it, and divides by the largest
element, which an all_reduce finds: the power method, whose factor converges to A's largest eigenvalue.
All numbers depend on their place only, so the result does not depend on the number of ranks, except for
rounding. --check multiplies once more in rank 0 alone and compares.
"""

from __future__ import annotations

import argparse
import sys
import time
from typing import Any, Optional, Tuple

import numpy as np

TOLERANCE = 1e-10  # of the elements: sums of float64 in another order


def rows_of(size: int, first: int, last: int) -> np.ndarray:
    """Rows first..last-1 of the matrix, [last - first, size]: positive, and symmetric."""
    row, column = np.arange(first, last)[:, None], np.arange(size)[None, :]
    return 1.0 / (1.0 + np.abs(row - column)) + (row * column % 7) / 100.0


def multiply(comm: Any, size: int, iterations: int) -> Tuple[np.ndarray, float, float]:
    """x after so many iterations, A's largest eigenvalue as they found it, and the share of the time
    that went into communication.

    comm: a communicator whose ranks divide `size`, or None for one process. Collective.
    """
    rank, ranks = (comm.rank, comm.world_size) if comm is not None else (0, 1)
    rows = size // ranks
    matrix = rows_of(size, rank * rows, (rank + 1) * rows)
    part, x, largest = np.ones(rows), np.empty(size), np.empty(1)
    communicating, begin = 0.0, time.perf_counter()
    for _ in range(iterations):
        called = time.perf_counter()
        gather(comm, part, x)
        communicating += time.perf_counter() - called
        np.dot(matrix, x, out=part)
        called = time.perf_counter()
        largest[0] = part.max()
        if comm is not None:
            comm.all_reduce(largest, op="max")
        communicating += time.perf_counter() - called
        part /= largest[0]
    gather(comm, part, x)
    return x, float(largest[0]), communicating / (time.perf_counter() - begin)


def gather(comm: Optional[Any], part: np.ndarray, x: np.ndarray) -> None:
    """x becomes the parts of all ranks, in their order."""
    if comm is not None:
        comm.all_gather(part, out=x)
    else:
        x[...] = part


def main() -> int:
    """Multiplies; returns 1 where --check finds another vector."""
    import nezha

    arguments = _arguments()
    with nezha.init() as comm:
        if arguments.size % comm.world_size:
            sys.exit(f"--size {arguments.size}: {comm.world_size} ranks cannot have equally many rows")
        x, eigenvalue, share = multiply(comm, arguments.size, arguments.iterations)
        rank, ranks = comm.rank, comm.world_size
    if rank != 0:
        return 0
    print(f"{ranks} rank(s): eigenvalue {eigenvalue:.9f}, {100 * share:.0f} % of the time in "
          "communication", flush=True)
    if not arguments.check:
        return 0
    alone, _, _ = multiply(None, arguments.size, arguments.iterations)
    difference = float(np.abs(x - alone).max())
    verdict = "agrees" if difference <= TOLERANCE else "DISAGREES"
    print(f"{verdict} with one process: the elements differ by {difference:.1e} at most")
    return int(difference > TOLERANCE)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--size", type=int, default=1536, help="rows and columns of the matrix")
    parser.add_argument("--iterations", type=int, default=50)
    parser.add_argument("--check", action="store_true", help="compare with one process")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
