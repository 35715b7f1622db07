"""Collectives and messages that only move elements, of any dtype: broadcast, gathers, send, recv."""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Optional, Sequence, overload

from . import _native
from ._arrays import new_like, shape_of
from ._literals import (AllGatherAlgorithm, AllToAllAlgorithm, BroadcastAlgorithm, GatherAlgorithm,
                        ScatterAlgorithm)

if TYPE_CHECKING:
    from typing_extensions import Unpack
    from ._literals import Array, Moving, New
    from ._native import Work


class Message(NamedTuple):
    """A message that waits for its recv."""

    source: int
    tag: int
    elements: int  # as the library counts them: a complex number is two
    nbytes: int


class Movements:
    """What Communicator has of them. timeout, async_op and errors are those of all_reduce."""

    _native: _native.Communicator
    rank: int
    world_size: int

    @overload
    def broadcast(self, x: Array, root: int = ..., *, async_op: Literal[False] = ...,
                  **how: Unpack[Moving[BroadcastAlgorithm]]) -> Array: ...
    @overload
    def broadcast(self, x: Array, root: int = ..., *, async_op: Literal[True],
                  **how: Unpack[Moving[BroadcastAlgorithm]]) -> Work[Array]: ...
    @overload
    def broadcast(self, x: Any, root: int = ..., *, async_op: bool,
                  **how: Unpack[Moving[BroadcastAlgorithm]]) -> Any: ...
    def broadcast(self, x: Any, root: int = 0, *, algorithm: Optional[BroadcastAlgorithm] = None,
                  timeout: Optional[float] = None, async_op: bool = False) -> Any:
        """Copies x of rank `root` into x of all other ranks. Returns x (or a Work).

        algorithm: "tree", "chain", or None: by cost. Otherwise as all_reduce.
        """
        return self._native.broadcast(x, root, algorithm, timeout, async_op)

    @overload
    def all_gather(self, x: Any, *, out: Optional[New] = ..., async_op: Literal[False] = ...,
                   **how: Unpack[Moving[AllGatherAlgorithm]]) -> New: ...
    @overload
    def all_gather(self, x: Any, *, out: Optional[New] = ..., async_op: Literal[True],
                   **how: Unpack[Moving[AllGatherAlgorithm]]) -> Work[New]: ...
    @overload
    def all_gather(self, x: Any, *, out: Any = ..., async_op: bool,
                   **how: Unpack[Moving[AllGatherAlgorithm]]) -> Any: ...
    def all_gather(self, x: Any, *, out: Any = None, algorithm: Optional[AllGatherAlgorithm] = None,
                   timeout: Optional[float] = None, async_op: bool = False) -> Any:
        """The x of every rank, in the order of ranks, on every rank.

        x: array, equal in dtype and number of elements on all ranks. It may be the part of `out` in
            which this rank's data belongs.
        out: array of the same dtype and world_size times as many elements; None: a new one of shape
            (world_size, *x.shape), NumPy's, or torch's where x is.
        algorithm: "ring", "bruck", "direct", ..., or None: by cost; the rest as in all_reduce.

        Returns out.
        """
        if out is None:
            out = new_like(x, (self.world_size, *shape_of(x)))
        return self._native.all_gather(x, out, algorithm, timeout, async_op)

    @overload
    def all_gather_v(self, x: Any, counts: Sequence[int], *, out: Optional[New] = ...,
                     async_op: Literal[False] = ...,
                     **how: Unpack[Moving[AllGatherAlgorithm]]) -> New: ...
    @overload
    def all_gather_v(self, x: Any, counts: Sequence[int], *, out: Optional[New] = ...,
                     async_op: Literal[True], **how: Unpack[Moving[AllGatherAlgorithm]]) -> Work[New]: ...
    @overload
    def all_gather_v(self, x: Any, counts: Sequence[int], *, out: Any = ..., async_op: bool,
                     **how: Unpack[Moving[AllGatherAlgorithm]]) -> Any: ...
    def all_gather_v(self, x: Any, counts: Sequence[int], *, out: Any = None,
                     algorithm: Optional[AllGatherAlgorithm] = None,
                     timeout: Optional[float] = None, async_op: bool = False) -> Any:
        """As all_gather, with counts[r] elements of rank r, where counts is equal on all ranks.

        Returns out, an array of sum(counts) elements; None: a new one of one axis.
        """
        if out is None:
            out = new_like(x, (max(0, sum(counts)),))
        return self._native.all_gather_v(x, out, counts, algorithm, timeout, async_op)

    @overload
    def gather(self, x: Any, root: int = ..., *, out: Optional[New] = ...,
               async_op: Literal[False] = ...,
               **how: Unpack[Moving[GatherAlgorithm]]) -> Optional[New]: ...
    @overload
    def gather(self, x: Any, root: int = ..., *, out: Optional[New] = ..., async_op: Literal[True],
               **how: Unpack[Moving[GatherAlgorithm]]) -> Work[Optional[New]]: ...
    @overload
    def gather(self, x: Any, root: int = ..., *, out: Any = ..., async_op: bool,
               **how: Unpack[Moving[GatherAlgorithm]]) -> Any: ...
    def gather(self, x: Any, root: int = 0, *, out: Any = None,
               algorithm: Optional[GatherAlgorithm] = None, timeout: Optional[float] = None,
               async_op: bool = False) -> Any:
        """As all_gather, but only rank `root` gets the result.

        Returns out on the root, None elsewhere, where out is not looked at.
        """
        if out is None and self.rank == operator.index(root):
            out = new_like(x, (self.world_size, *shape_of(x)))
        return self._native.gather(x, out, root, algorithm, timeout, async_op)

    @overload
    def scatter(self, x: Any, root: int = ..., *, out: Array, async_op: Literal[False] = ...,
                **how: Unpack[Moving[ScatterAlgorithm]]) -> Array: ...
    @overload
    def scatter(self, x: Any, root: int = ..., *, out: Array, async_op: Literal[True],
                **how: Unpack[Moving[ScatterAlgorithm]]) -> Work[Array]: ...
    @overload
    def scatter(self, x: Any, root: int = ..., *, out: Any, async_op: bool,
                **how: Unpack[Moving[ScatterAlgorithm]]) -> Any: ...
    def scatter(self, x: Any, root: int = 0, *, out: Any,
                algorithm: Optional[ScatterAlgorithm] = None, timeout: Optional[float] = None,
                async_op: bool = False) -> Any:
        """Gives rank r the r-th of world_size blocks of the x of rank `root`.

        x: on the root, an array of world_size times the elements of out; elsewhere not looked at.
        out: array for one block, equal in dtype and number of elements on all ranks; on the root it
            may be its block of x.

        Returns out.
        """
        return self._native.scatter(x, out, root, algorithm, timeout, async_op)

    @overload
    def all_to_all(self, x: Array, *, out: None = ..., async_op: Literal[False] = ...,
                   **how: Unpack[Moving[AllToAllAlgorithm]]) -> Array: ...
    @overload
    def all_to_all(self, x: Array, *, out: None = ..., async_op: Literal[True],
                   **how: Unpack[Moving[AllToAllAlgorithm]]) -> Work[Array]: ...
    @overload
    def all_to_all(self, x: Any, *, out: Array, async_op: Literal[False] = ...,
                   **how: Unpack[Moving[AllToAllAlgorithm]]) -> Array: ...
    @overload
    def all_to_all(self, x: Any, *, out: Array, async_op: Literal[True],
                   **how: Unpack[Moving[AllToAllAlgorithm]]) -> Work[Array]: ...
    @overload
    def all_to_all(self, x: Any, *, out: Any = ..., async_op: bool,
                   **how: Unpack[Moving[AllToAllAlgorithm]]) -> Any: ...
    def all_to_all(self, x: Any, *, out: Any = None, algorithm: Optional[AllToAllAlgorithm] = None,
                   timeout: Optional[float] = None, async_op: bool = False) -> Any:
        """Gives rank r the r-th of world_size blocks of x, and gets one block from every rank.

        x: array of world_size blocks of equal length, equal in size on all ranks.
        out: array of the same dtype and number of elements that shares no memory with x; None: a new
            one of the shape of x.

        Returns out.
        """
        if out is None:
            out = new_like(x, shape_of(x))
        return self._native.all_to_all(x, out, algorithm, timeout, async_op)

    @overload
    def all_to_all_v(self, x: Any, send_counts: Sequence[int], receive_counts: Sequence[int], *,
                     out: Optional[New] = ..., async_op: Literal[False] = ...,
                     **how: Unpack[Moving[AllToAllAlgorithm]]) -> New: ...
    @overload
    def all_to_all_v(self, x: Any, send_counts: Sequence[int], receive_counts: Sequence[int], *,
                     out: Optional[New] = ..., async_op: Literal[True],
                     **how: Unpack[Moving[AllToAllAlgorithm]]) -> Work[New]: ...
    @overload
    def all_to_all_v(self, x: Any, send_counts: Sequence[int], receive_counts: Sequence[int], *,
                     out: Any = ..., async_op: bool, **how: Unpack[Moving[AllToAllAlgorithm]]) -> Any: ...
    def all_to_all_v(self, x: Any, send_counts: Sequence[int], receive_counts: Sequence[int], *,
                     out: Any = None, algorithm: Optional[AllToAllAlgorithm] = None,
                     timeout: Optional[float] = None, async_op: bool = False) -> Any:
        """As all_to_all, with send_counts[r] elements for rank r and receive_counts[r] from it.

        Rank a's send_counts[b] must be rank b's receive_counts[a]. Returns out, an array of
        sum(receive_counts) elements; None: a new one of one axis.
        """
        if out is None:
            out = new_like(x, (max(0, sum(receive_counts)),))
        return self._native.all_to_all_v(x, send_counts, out, receive_counts, algorithm, timeout,
                                         async_op)

    @overload
    def send(self, x: Any, destination: int, tag: int = ..., *, async_op: Literal[False] = ...,
             timeout: Optional[float] = ...) -> None: ...
    @overload
    def send(self, x: Any, destination: int, tag: int = ..., *, async_op: Literal[True],
             timeout: Optional[float] = ...) -> Work[None]: ...
    @overload
    def send(self, x: Any, destination: int, tag: int = ..., *, async_op: bool,
             timeout: Optional[float] = ...) -> Any: ...
    def send(self, x: Any, destination: int, tag: int = 0, *, timeout: Optional[float] = None,
             async_op: bool = False) -> Any:
        """Sends x to rank `destination`, which calls recv with as many elements of the same dtype.

        tag: 0 to 2**32 - 2; messages of one tag between two ranks arrive in the order of sending.
        Messages stand outside the order of the collectives. A send may return before the message is
        received. Returns None, or a Work.
        """
        return self._native.send(x, destination, tag, timeout, async_op)

    @overload
    def recv(self, x: Array, source: Optional[int] = ..., tag: Optional[int] = ..., *,
             async_op: Literal[False] = ..., timeout: Optional[float] = ...) -> Array: ...
    @overload
    def recv(self, x: Array, source: Optional[int] = ..., tag: Optional[int] = ..., *,
             async_op: Literal[True], timeout: Optional[float] = ...) -> Work[Array]: ...
    @overload
    def recv(self, x: Any, source: Optional[int] = ..., tag: Optional[int] = ..., *, async_op: bool,
             timeout: Optional[float] = ...) -> Any: ...
    def recv(self, x: Any, source: Optional[int] = None, tag: Optional[int] = 0, *,
             timeout: Optional[float] = None, async_op: bool = False) -> Any:
        """Receives a message of rank `source` (None: of any rank) into x. Returns x, or a Work.

        tag: of the message; None: of any tag. Work.source and Work.tag say whose message it was, when
        it is complete, and probe() before.
        """
        return self._native.recv(x, source, tag, timeout, async_op)

    def probe(self, source: Optional[int] = None, tag: Optional[int] = None) -> Optional[Message]:
        """What recv(x, source, tag) would take: (source, tag, elements, nbytes); None: nothing yet.

        Never waits. The message stays: recv takes it, from the source and with the tag that it has, into
        an array of nbytes bytes. Another thread that receives may be quicker.
        """
        found = self._native.probe(source, tag)
        return None if found is None else Message(*found)

    def sendrecv(self, x: Any, destination: int, out: Array, source: Optional[int] = None, tag: int = 0,
                 *, timeout: Optional[float] = None) -> Array:
        """Sends x to rank `destination` while it receives a message of rank `source` into out.

        Neither waits for the other, so that ranks may send in circles. x and out may differ in size and
        dtype, and share no memory. Returns out.
        """
        sending = self.send(x, destination, tag, timeout=timeout, async_op=True)
        self.recv(out, source, tag, timeout=timeout)
        sending.wait()
        return out
