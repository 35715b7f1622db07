"""One rank of a Nezha job in the guest: all_reduces, every element checked, until it is told to stop.

Prints `@operation {"count": ..., "rails": {device: bytes sent}}` after each. A line on the standard input
of any rank stops the job: the wish travels in the operations themselves, so that all stop after the same.
Usage: python -m rdma.job ELEMENTS
"""

from __future__ import annotations

import json
import select
import sys

import numpy as np

import nezha

STOP = 1 << 20  # more than the sum of what else element 0 holds


def expected(elements: int, count: int, size: int) -> "np.ndarray":
    """Sum over the ranks of what contribution() makes."""
    return sum((contribution(elements, count, rank) for rank in range(size)),
               np.zeros(elements, np.int32))


def contribution(elements: int, count: int, rank: int) -> "np.ndarray":
    """[elements] int32: differs from element to element, operation to operation, rank to rank."""
    return (np.arange(elements, dtype=np.int32) * (rank + 3) + count * 7) % 1009


def main() -> None:
    """Joins the job that the environment describes."""
    elements = int(sys.argv[1])
    with nezha.init() as comm:
        count, stopping = 0, False
        while not stopping:
            x = contribution(elements, count, comm.rank)
            x[0] += STOP * bool(select.select([sys.stdin], [], [], 0)[0])
            comm.all_reduce(x)
            stopping = x[0] >= STOP
            x[0] %= STOP
            wrong = np.flatnonzero(x != expected(elements, count, comm.world_size))
            if wrong.size:
                sys.exit(f"operation {count}: {wrong.size} of {elements} elements are wrong, the first "
                         f"at {wrong[0]}: {x[wrong[0]]}")
            count += 1
            sent = {rail["name"]: rail["bytes_sent"] for rail in comm.rails()}
            print("@operation " + json.dumps({"count": count, "rails": sent}), flush=True)


if __name__ == "__main__":
    try:
        main()
    except nezha.Error as error:
        sys.exit(str(error))
