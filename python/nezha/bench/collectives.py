"""The collectives the bench can run: one small class each, all with the same five methods.

A case holds the buffers of one size on one rank. `refill` makes fresh random data, `call` is the
one operation that is timed, `wrong` counts elements of its result that differ from the reference.
"""

from __future__ import annotations

from typing import Any, Callable, Optional, Protocol

import numpy as np

from .reference import Reference, numpy_dtype
from .spec import BenchSpec


class Case(Protocol):
    """One collective at one size on one rank."""

    def refill(self) -> None:
        """Fresh random input."""

    def call(self) -> None:
        """The operation that is timed. Collective; blocks until it has completed."""

    def wrong(self) -> int:
        """Wrong elements in the result of the last `call` after a `refill`."""


class AllReduce:
    """out[i] = op over ranks of in[i]."""

    def __init__(self, comm: Any, spec: BenchSpec, count: int) -> None:
        self._comm = comm
        self._op = spec.op
        self._reference = Reference(spec.dtype, spec.op, comm.world_size, spec.seed)
        self._in = self._reference.input(comm.rank, count)
        self._out: Optional[np.ndarray] = None if spec.in_place else np.empty_like(self._in)
        self._algorithm = spec.algorithm

    def refill(self) -> None:
        self._in[...] = self._reference.input(self._comm.rank, len(self._in))
        if self._out is not None:
            self._out.view(np.uint8)[...] = 0xA5  # a result that is not written is wrong

    def call(self) -> None:
        self._comm.all_reduce(self._in, op=self._op, out=self._out, algorithm=self._algorithm)

    def wrong(self) -> int:
        return self._reference.wrong(self._in if self._out is None else self._out)


class Broadcast:
    """The root's data, everywhere."""

    def __init__(self, comm: Any, spec: BenchSpec, count: int) -> None:
        self._comm = comm
        self._root = spec.root
        self._reference = Reference(spec.dtype, "sum", 1, spec.seed)
        self._buffer = np.empty(count, numpy_dtype(spec.dtype))
        self.refill()

    def refill(self) -> None:
        if self._comm.rank == self._root:
            self._buffer[...] = self._reference.input(0, len(self._buffer))
        else:
            self._buffer.view(np.uint8)[...] = 0xA5

    def call(self) -> None:
        self._comm.broadcast(self._buffer, root=self._root)

    def wrong(self) -> int:
        return self._reference.wrong(self._buffer)


class Barrier:
    """Nobody leaves before everybody has come."""

    def __init__(self, comm: Any, spec: BenchSpec, count: int) -> None:
        self._comm = comm

    def refill(self) -> None:
        """A barrier has no data."""

    def call(self) -> None:
        self._comm.barrier()

    def wrong(self) -> int:
        return 0


CASES: "dict[str, Callable[[Any, BenchSpec, int], Case]]" = {
    "all_reduce": AllReduce,
    "broadcast": Broadcast,
    "barrier": Barrier,
}
