"""Communicator: the ranks of a job, and the collectives among them."""

from __future__ import annotations

import atexit
import json
import os
import weakref
from typing import Any, Dict, List, Optional, TypeVar, Union, overload

from . import _native
from ._native import Work

Array = TypeVar("Array")

# How long the end of the interpreter waits for operations that nobody waited for.
_EXIT_SECONDS = 2.0

# Every communicator, with the process that opened it: a fork must leave its parent's alone.
_open: "weakref.WeakKeyDictionary[_native.Communicator, int]" = weakref.WeakKeyDictionary()


def connect(rank: int, world_size: int, store: Optional[str], store_object: Any,
            job: Optional[str], timeout: float, config: str) -> "Communicator":
    """nezha_init; see startup.init for what users call."""
    return Communicator(_native.init(rank, world_size, store, store_object, job, timeout, config))


class Communicator:
    """Ordered ranks that call the same operations in the same order.

    Made by nezha.init() or split(). May be used by several threads, as long as all ranks start
    their operations in the same order. As a context manager it is closed at the end of the block,
    and aborted when the block is left by an exception, so that the other ranks do not wait.

    Arrays: NumPy (bfloat16 of ml_dtypes included), torch CPU tensors, and anything with the buffer
    protocol or DLPack; C-contiguous; float64, float32, float16, bfloat16, int8, uint8, int32 or
    int64. Buffers belong to the operation until it has completed.
    """

    def __init__(self, native: _native.Communicator) -> None:
        self._native = native
        self.rank: int = native.rank
        self.world_size: int = native.world_size
        _open[native] = os.getpid()

    @overload
    def all_reduce(self, x: Array, op: str = ..., *, out: None = ...,
                   factor: Optional[float] = ..., algorithm: Optional[str] = ...,
                   timeout: Optional[float] = ..., async_op: bool = ...) -> Array: ...

    @overload
    def all_reduce(self, x: Any, op: str = ..., *, out: Array, factor: Optional[float] = ...,
                   algorithm: Optional[str] = ..., timeout: Optional[float] = ...,
                   async_op: bool = ...) -> Array: ...

    def all_reduce(self, x: Any, op: str = "sum", *, out: Any = None,
                   factor: Optional[float] = None, algorithm: Optional[str] = None,
                   timeout: Optional[float] = None, async_op: bool = False) -> Any:
        """Combines x of all ranks, element by element; every rank gets the same bits.

        x: array of any shape, equal in dtype and number of elements on all ranks. The result
            replaces it, unless `out`, an array of the same dtype and size, is given.
        op: "sum", "avg", "prod", "min", "max", "band", "bor", "bxor", or "premul_sum", which
            multiplies this rank's x by `factor` first.
        algorithm: "ring", "halving_doubling", "recursive_doubling", "bcube", or None: by cost.
        timeout: seconds until the operation fails with TimedOut; None: the communicator's.
        async_op: return a Work at once; its wait() returns the array.

        Returns x, or out. Raises InvalidArgument (shape, strides, read-only memory), Unsupported
        (dtype, op), Mismatch (the ranks called differently), PeerLost, TimedOut, Aborted.
        """
        return self._native.all_reduce(x, op, out, factor, algorithm, timeout, async_op)

    def broadcast(self, x: Any, root: int = 0, *, algorithm: Optional[str] = None,
                  timeout: Optional[float] = None, async_op: bool = False) -> Any:
        """Copies x of rank `root` into x of all other ranks. Returns x (or a Work).

        algorithm: "tree", "chain", or None: by cost. Otherwise as all_reduce.
        """
        return self._native.broadcast(x, root, algorithm, timeout, async_op)

    def barrier(self, *, timeout: Optional[float] = None,
                async_op: bool = False) -> Optional[Work]:
        """Returns when every rank has called it."""
        return self._native.barrier(timeout, async_op)

    def split(self, color: Optional[int], key: int = 0) -> Optional["Communicator"]:
        """The communicator of the ranks that passed the same color, ordered by (key, rank).

        Collective. A color of None or below 0 takes part and gets None. Connections are shared,
        not opened again.
        """
        child = self._native.split(-1 if color is None else color, key)
        return None if child is None else Communicator(child)

    def abort(self) -> None:
        """Fails the running and all later operations, on every rank, with Aborted."""
        self._native.abort()

    def close(self, *, timeout: Optional[float] = None) -> None:
        """Leaves in order; nothing happens the second time.

        Unfinished asynchronous operations are waited for; after `timeout` seconds (None: their own
        deadlines) they are aborted.
        """
        self._native.close(timeout)

    @property
    def closed(self) -> bool:
        """Whether close() was called."""
        return self._native.closed

    def rails(self) -> List[Dict[str, Any]]:
        """This rank's rails: name, address, peers, rate, bytes sent and received, state."""
        return self.describe("rails")["rails"]

    def stats(self) -> Dict[str, Any]:
        """Counters: operations, frames, acknowledgements, retransmissions, system calls."""
        return self.describe("stats")

    def table(self) -> Dict[str, Any]:
        """What the balancing policy has learned; load_table() restores it."""
        return self.describe("table")

    def load_table(self, table: Union[str, Dict[str, Any]]) -> None:
        """Restores what table() returned, or its JSON text."""
        self._native.load_table(table if isinstance(table, str) else json.dumps(table))

    def config(self) -> Dict[str, Any]:
        """The configuration in force, and where each value came from."""
        return self.describe("config")

    def describe(self, what: str) -> Any:
        """The parsed answer of nezha_describe: "rails", "table", "config" or "stats".

        "rails" also has the devices that were left out, with their reasons, for every rank.
        """
        return json.loads(self._native.describe(what))

    def __enter__(self) -> "Communicator":
        return self

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        if kind is not None and not self.closed:
            self.abort()
        self.close()

    def __repr__(self) -> str:
        state = ", closed" if self.closed else ""
        return f"<nezha.Communicator rank {self.rank} of {self.world_size}{state}>"


def _close_all() -> None:
    for native, owner in list(_open.items()):
        if owner == os.getpid():
            native.close(_EXIT_SECONDS)


atexit.register(_close_all)
