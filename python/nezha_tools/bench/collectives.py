"""The collectives the bench can run: one small class each, all with the same five methods.

A case holds the buffers of one size on one rank. `refill` makes fresh random data, `call` is the
one operation that is timed, `wrong` counts elements of its result that differ from the reference.
"""

from __future__ import annotations

from typing import Any, Callable, Iterable, List, Optional, Protocol

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


class AllReduceInPieces(AllReduce):
    """The same of a vector in equal pieces, an all_reduce each, submitted as the spec says."""

    def __init__(self, comm: Any, spec: BenchSpec, count: int) -> None:
        super().__init__(comm, spec, count)
        self._inputs = np.split(self._in, spec.pieces)
        self._outputs: List[Optional[np.ndarray]] = [None] * spec.pieces
        if self._out is not None:
            self._outputs = list(np.split(self._out, spec.pieces))
        self._submitted = spec.submitted

    def call(self) -> None:
        if self._submitted == "asynchronous":
            for work in self._submit(async_op=True):
                work.wait()
        elif self._submitted == "coalesced":
            with self._comm.batch():
                self._submit()
        else:
            self._submit()

    def _submit(self, **how: Any) -> List[Any]:
        return [self._comm.all_reduce(piece, op=self._op, out=out, algorithm=self._algorithm, **how)
                for piece, out in zip(self._inputs, self._outputs)]


def _all_reduce(comm: Any, spec: BenchSpec, count: int) -> Case:
    return (AllReduce if spec.pieces == 1 else AllReduceInPieces)(comm, spec, count)


class Broadcast:
    """The root's data, everywhere."""

    def __init__(self, comm: Any, spec: BenchSpec, count: int) -> None:
        self._comm = comm
        self._root, self._algorithm = spec.root, spec.algorithm
        self._reference = Reference(spec.dtype, "sum", 1, spec.seed)
        self._buffer = np.empty(count, numpy_dtype(spec.dtype))
        self.refill()

    def refill(self) -> None:
        if self._comm.rank == self._root:
            self._buffer[...] = self._reference.input(0, len(self._buffer))
        else:
            self._buffer.view(np.uint8)[...] = 0xA5

    def call(self) -> None:
        self._comm.broadcast(self._buffer, root=self._root, algorithm=self._algorithm)

    def wrong(self) -> int:
        return self._reference.wrong(self._buffer)


class _Blocks:
    """A collective of blocks: `count` elements are those of all blocks together, as nccl-tests count."""

    def __init__(self, comm: Any, spec: BenchSpec, count: int) -> None:
        self._comm, self._root, self._algorithm = comm, spec.root, spec.algorithm
        self._reference = Reference(spec.dtype, "sum", 1, spec.seed)
        self._block = count // comm.world_size
        self._total = self._block * comm.world_size
        self._in = np.empty(self._in_count(), numpy_dtype(spec.dtype))
        self._out = np.empty(self._out_count(), numpy_dtype(spec.dtype))
        self.refill()

    def refill(self) -> None:
        self._in[...] = self._reference.input(self._comm.rank, len(self._in))
        self._out.view(np.uint8)[...] = 0xA5

    def _in_count(self) -> int:
        return self._block

    def _out_count(self) -> int:
        return self._total

    def _part(self, rank: int, index: int) -> np.ndarray:
        """Block `index` of the input of `rank`, where inputs hold a block for every rank."""
        whole = self._reference.input(rank, self._total)
        return whole[index * self._block:(index + 1) * self._block]

    def _wrong_blocks(self, blocks: Iterable[np.ndarray]) -> int:
        expected = np.concatenate(list(blocks))
        return int(np.count_nonzero(self._out != expected))


class AllGather(_Blocks):
    """Every rank's block, everywhere."""

    def call(self) -> None:
        self._comm.all_gather(self._in, out=self._out, algorithm=self._algorithm)

    def wrong(self) -> int:
        return self._wrong_blocks(self._reference.input(rank, self._block)
                                  for rank in range(self._comm.world_size))


class Gather(AllGather):
    """Every rank's block, on the root."""

    def call(self) -> None:
        self._comm.gather(self._in, self._root, out=self._out, algorithm=self._algorithm)

    def wrong(self) -> int:
        return super().wrong() if self._comm.rank == self._root else 0


class Scatter(_Blocks):
    """The root's blocks, one to every rank."""

    def _in_count(self) -> int:
        return self._total

    def _out_count(self) -> int:
        return self._block

    def call(self) -> None:
        self._comm.scatter(self._in, self._root, out=self._out, algorithm=self._algorithm)

    def wrong(self) -> int:
        return self._wrong_blocks([self._part(self._root, self._comm.rank)])


class AllToAll(_Blocks):
    """A block from everybody to everybody."""

    def _in_count(self) -> int:
        return self._total

    def call(self) -> None:
        self._comm.all_to_all(self._in, out=self._out, algorithm=self._algorithm)

    def wrong(self) -> int:
        return self._wrong_blocks(self._part(rank, self._comm.rank)
                                  for rank in range(self._comm.world_size))


class ReduceScatter(_Blocks):
    """One block of the reduced vector for every rank."""

    def __init__(self, comm: Any, spec: BenchSpec, count: int) -> None:
        super().__init__(comm, spec, count)
        self._op = spec.op
        self._reference = Reference(spec.dtype, spec.op, comm.world_size, spec.seed)
        self.refill()

    def _in_count(self) -> int:
        return self._total

    def _out_count(self) -> int:
        return self._block

    def call(self) -> None:
        self._comm.reduce_scatter(self._in, self._op, out=self._out, algorithm=self._algorithm)

    def wrong(self) -> int:
        begin = self._comm.rank * self._block
        end, bad = begin + self._block, 0
        for start, stop, exact in self._reference.expected(self._total):
            low, high = max(start, begin), min(stop, end)
            if low < high:
                got = self._out[low - begin:high - begin].astype(exact.dtype)
                bad += int(np.count_nonzero(got != exact[low - start:high - start]))
        return bad


class Reduce(AllReduce):
    """As all_reduce, on the root only."""

    def __init__(self, comm: Any, spec: BenchSpec, count: int) -> None:
        super().__init__(comm, spec, count)
        self._root = spec.root

    def call(self) -> None:
        self._comm.reduce(self._in, self._root, self._op, out=self._out,
                          algorithm=self._algorithm)

    def wrong(self) -> int:
        return super().wrong() if self._comm.rank == self._root else 0


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
    "all_reduce": _all_reduce,
    "broadcast": Broadcast,
    "all_gather": AllGather,
    "reduce_scatter": ReduceScatter,
    "reduce": Reduce,
    "gather": Gather,
    "scatter": Scatter,
    "all_to_all": AllToAll,
    "barrier": Barrier,
}
