"""Collectives that combine arrays: all_reduce, reduce, reduce_scatter."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, Optional, Sequence, Tuple, overload

from . import _native
from ._arrays import new_like, shape_of
from .errors import InvalidArgument
from ._literals import AllReduceAlgorithm, Op, ReduceAlgorithm, ReduceScatterAlgorithm

if TYPE_CHECKING:
    from typing_extensions import Unpack
    from ._literals import Array, Combining, New
    from ._native import Work


class Reductions:
    """What Communicator has of them. Arrays are of the dtypes that can be combined: see there."""

    _native: _native.Communicator
    rank: int
    world_size: int

    @overload
    def all_reduce(self, x: Array, op: Op = ..., *, out: None = ..., async_op: Literal[False] = ...,
                   **how: Unpack[Combining[AllReduceAlgorithm]]) -> Array: ...
    @overload
    def all_reduce(self, x: Array, op: Op = ..., *, out: None = ..., async_op: Literal[True],
                   **how: Unpack[Combining[AllReduceAlgorithm]]) -> Work[Array]: ...
    @overload
    def all_reduce(self, x: Any, op: Op = ..., *, out: Array, async_op: Literal[False] = ...,
                   **how: Unpack[Combining[AllReduceAlgorithm]]) -> Array: ...
    @overload
    def all_reduce(self, x: Any, op: Op = ..., *, out: Array, async_op: Literal[True],
                   **how: Unpack[Combining[AllReduceAlgorithm]]) -> Work[Array]: ...
    @overload
    def all_reduce(self, x: Any, op: Op = ..., *, out: Any = ..., async_op: bool,
                   **how: Unpack[Combining[AllReduceAlgorithm]]) -> Any: ...
    def all_reduce(self, x: Any, op: Op = "sum", *, out: Any = None,
                   factor: Optional[float] = None, algorithm: Optional[AllReduceAlgorithm] = None,
                   timeout: Optional[float] = None, async_op: bool = False) -> Any:
        """Combines x of all ranks, element by element; every rank gets the same bits.

        x: array of any shape, equal in dtype and number of elements on all ranks. The result
            replaces it, unless `out`, an array of the same dtype and size, is given.
        op: "sum", "avg" (of floating point, without overflow on the way), "prod", "min", "max",
            "band", "bor", "bxor" (of integers), or "premul_sum", which multiplies this rank's x by
            `factor` first.
        algorithm: "ring", "halving_doubling", "recursive_doubling", "bcube", or None: by cost.
        timeout: seconds until the operation fails with TimedOut; None: the communicator's.
        async_op: return a Work at once; its wait() returns the array.

        Returns x, or out. Raises InvalidArgument (shape, strides, read-only memory), Unsupported
        (dtype, op), Mismatch (the ranks called differently), PeerLost, TimedOut, Aborted, Exhausted.
        Without `out`, x is lost after the last five: keep what is needed to make it again.
        """
        return self._native.all_reduce(x, op, out, factor, algorithm, timeout, async_op)

    @overload
    def reduce(self, x: Array, root: int = ..., op: Op = ..., *, out: None = ...,
               async_op: Literal[False] = ...,
               **how: Unpack[Combining[ReduceAlgorithm]]) -> Optional[Array]: ...
    @overload
    def reduce(self, x: Array, root: int = ..., op: Op = ..., *, out: None = ...,
               async_op: Literal[True],
               **how: Unpack[Combining[ReduceAlgorithm]]) -> Work[Optional[Array]]: ...
    @overload
    def reduce(self, x: Any, root: int = ..., op: Op = ..., *, out: Array,
               async_op: Literal[False] = ...,
               **how: Unpack[Combining[ReduceAlgorithm]]) -> Optional[Array]: ...
    @overload
    def reduce(self, x: Any, root: int = ..., op: Op = ..., *, out: Array, async_op: Literal[True],
               **how: Unpack[Combining[ReduceAlgorithm]]) -> Work[Optional[Array]]: ...
    @overload
    def reduce(self, x: Any, root: int = ..., op: Op = ..., *, out: Any = ..., async_op: bool,
               **how: Unpack[Combining[ReduceAlgorithm]]) -> Any: ...
    def reduce(self, x: Any, root: int = 0, op: Op = "sum", *, out: Any = None,
               factor: Optional[float] = None, algorithm: Optional[ReduceAlgorithm] = None,
               timeout: Optional[float] = None, async_op: bool = False) -> Any:
        """As all_reduce, but only rank `root` gets the result: in x, or in out.

        The x of the other ranks is only read, and their out is not looked at. Returns the result on
        the root, None elsewhere.
        """
        return self._native.reduce(x, root, op, out, factor, algorithm, timeout, async_op)

    @overload
    def reduce_scatter(self, x: Any, op: Op = ..., *, out: Optional[New] = ...,
                       async_op: Literal[False] = ...,
                       **how: Unpack[Combining[ReduceScatterAlgorithm]]) -> New: ...
    @overload
    def reduce_scatter(self, x: Any, op: Op = ..., *, out: Optional[New] = ..., async_op: Literal[True],
                       **how: Unpack[Combining[ReduceScatterAlgorithm]]) -> Work[New]: ...
    @overload
    def reduce_scatter(self, x: Any, op: Op = ..., *, out: Any = ..., async_op: bool,
                       **how: Unpack[Combining[ReduceScatterAlgorithm]]) -> Any: ...
    def reduce_scatter(self, x: Any, op: Op = "sum", *, out: Any = None,
                       factor: Optional[float] = None,
                       algorithm: Optional[ReduceScatterAlgorithm] = None,
                       timeout: Optional[float] = None, async_op: bool = False) -> Any:
        """Combines x of all ranks, element by element; rank r gets the r-th of world_size blocks.

        x: array of world_size blocks of equal length. It is not changed.
        out: array of the same dtype with the elements of one block; it may be this rank's block of x.
            None: a new one of shape (x.shape[0] / world_size, *x.shape[1:]).
        op, factor and the rest: as in all_reduce.

        Returns out.
        """
        if out is None:
            out = new_like(x, self._block_shape(x))
        return self._native.reduce_scatter(x, out, op, factor, algorithm, timeout, async_op)

    @overload
    def reduce_scatter_v(self, x: Any, counts: Sequence[int], op: Op = ..., *, out: Optional[New] = ...,
                         async_op: Literal[False] = ...,
                         **how: Unpack[Combining[ReduceScatterAlgorithm]]) -> New: ...
    @overload
    def reduce_scatter_v(self, x: Any, counts: Sequence[int], op: Op = ..., *, out: Optional[New] = ...,
                         async_op: Literal[True],
                         **how: Unpack[Combining[ReduceScatterAlgorithm]]) -> Work[New]: ...
    @overload
    def reduce_scatter_v(self, x: Any, counts: Sequence[int], op: Op = ..., *, out: Any = ...,
                         async_op: bool, **how: Unpack[Combining[ReduceScatterAlgorithm]]) -> Any: ...
    def reduce_scatter_v(self, x: Any, counts: Sequence[int], op: Op = "sum", *, out: Any = None,
                         factor: Optional[float] = None,
                         algorithm: Optional[ReduceScatterAlgorithm] = None,
                         timeout: Optional[float] = None, async_op: bool = False) -> Any:
        """As reduce_scatter, with a block of counts[r] elements for rank r.

        counts is equal on all ranks. Returns out, an array of counts[rank] elements; None: a new one.
        """
        if out is None:
            out = new_like(x, tuple(max(0, each) for each in counts[self.rank:self.rank + 1]))
        return self._native.reduce_scatter_v(x, out, counts, op, factor, algorithm, timeout,
                                             async_op)

    def _block_shape(self, x: Any) -> Tuple[int, ...]:
        """The shape of one of world_size blocks along the first axis."""
        shape = shape_of(x)
        if not shape or shape[0] % self.world_size:
            raise InvalidArgument(f"x has shape {shape}: its first extent must be a multiple of the "
                                  f"{self.world_size} ranks, or pass out=")
        return (shape[0] // self.world_size, *shape[1:])
