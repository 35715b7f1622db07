"""Communicator: the ranks of a job, and the collectives among them."""

from __future__ import annotations

import atexit
import json
import os
import warnings
import weakref
from typing import TYPE_CHECKING, Any, Dict, List, Literal, Optional, Sequence, Union, cast, overload

from . import _native, _final_stats
from ._native import Work
from ._objects import Objects
from ._literals import Topic
from ._reductions import Reductions
from .errors import InvalidArgument

if TYPE_CHECKING:
    from ._statistics import Rail, Stats, Stragglers

# How long the end of the interpreter waits for operations that nobody waited for.
_EXIT_SECONDS = 2.0

# Every communicator, with the process that opened it: a fork must leave its parent's alone.
_open: "weakref.WeakKeyDictionary[_native.Communicator, int]" = weakref.WeakKeyDictionary()


def connect(rank: int, world_size: int, store: Optional[str], store_object: Any,
            job: Optional[str], timeout: float, config: str, mpi: Any = None) -> "Communicator":
    """nezha_init; see startup.init for what users call."""
    native = _native.init(rank, world_size, store, store_object, job, timeout, config, mpi)
    _final_stats.watch(native)
    return Communicator(native)


class Communicator(Reductions, Objects):
    """Ordered ranks that call the same operations in the same order.

    Made by nezha.init(), split() or create_group(). May be used by several threads, as long as all ranks
    start their operations in the same order. As a context manager it is closed at the end of the block,
    and aborted when the block is left by an exception, so that the other ranks do not wait.

    Arrays: NumPy (with bfloat16 and float8 of ml_dtypes), torch CPU tensors, and anything with the buffer
    protocol or DLPack; C-contiguous. What is combined (all_reduce, reduce, reduce_scatter) is float64,
    float32, float16, bfloat16, float8_e4m3fn, float8_e5m2, int8 to int64, uint8 to uint64, bool (sums and
    maxima mean "or", products and minima "and") or complex (sum, avg and premul_sum); what is only moved
    may be of any dtype without references to Python objects. Buffers belong to the operation until it has
    completed.

    In every call x, ranks, counts and the operator come first; `out` and all that follows are keywords.

    After InvalidArgument and Unsupported no buffer was touched. After any other error an array that the
    operation only reads is as it was, and one that it writes holds anything: old values, parts of sums,
    results. So an operation in place has lost its input. A rank that got no error has the whole result,
    also where others got one. More: docs/failure_model.md, "What a buffer holds after an error".
    """

    def __init__(self, native: _native.Communicator) -> None:
        self._native = native
        self.rank: int = native.rank
        self.world_size: int = native.world_size
        _open[native] = os.getpid()

    @overload
    def barrier(self, *, async_op: Literal[False] = ..., timeout: Optional[float] = ...) -> None: ...
    @overload
    def barrier(self, *, async_op: Literal[True], timeout: Optional[float] = ...) -> Work[None]: ...
    @overload
    def barrier(self, *, async_op: bool, timeout: Optional[float] = ...) -> Optional[Work[None]]: ...
    def barrier(self, *, timeout: Optional[float] = None,
                async_op: bool = False) -> Optional[Work[None]]:
        """Returns when every rank has called it."""
        return self._native.barrier(timeout, async_op)

    def batch(self, *, timeout: Optional[float] = None, async_op: bool = False) -> "Batch":
        """Starts the operations of a block together, so that short ones overlap.

            with comm.batch() as batch:
                comm.all_reduce(a)
                comm.broadcast(b)

        Results are there when the block is left; with async_op, when batch.work says so. An exception
        in the block forgets its operations. The operations belong to the thread that runs the block.

        timeout: for operations that have none of their own.
        """
        return Batch(self._native, timeout, async_op)

    def group(self, *, timeout: Optional[float] = None, async_op: bool = False) -> "Batch":
        """The old name of batch(), which goes with version 0.3."""
        _is_renamed("group", "batch")
        return self.batch(timeout=timeout, async_op=async_op)

    def split(self, color: Optional[int], key: int = 0) -> Optional["Communicator"]:
        """The communicator of the ranks that passed the same color, ordered by (key, rank).

        Collective. A color of None or below 0 takes part and gets None. Connections are shared,
        not opened again.
        """
        child = self._native.split(-1 if color is None else color, key)
        return None if child is None else Communicator(child)

    def create_group(self, ranks: Sequence[int], name: str = "") -> "Communicator":
        """The communicator of `ranks` of this one, in that order.

        Collective over those ranks only, and without a message: all of them pass the same ranks and
        name, and create groups of equal ranks and name in the same order. The others do not call.
        Raises InvalidArgument where this rank is not among them.
        """
        if len(ranks) == 0:
            raise InvalidArgument("create_group: ranks is empty: pass those of the new communicator, "
                                  "this rank among them")
        return Communicator(self._native.create(ranks, name))

    def create(self, ranks: Sequence[int], name: str = "") -> "Communicator":
        """The old name of create_group(), which goes with version 0.3."""
        _is_renamed("create", "create_group")
        return self.create_group(ranks, name)

    def shrink(self, *, timeout: Optional[float] = None) -> "Communicator":
        """The communicator of the ranks that are left, in their order.

        For going on after PeerLost, or any other error: every rank that lives calls it, also if it saw
        no error itself. This communicator is over on all of them; close it. Ranks that die meanwhile are
        left out. If one dies when some ranks have the new communicator already, that one raises
        PeerLost, too: call its shrink().

        What failed left its output undefined, and some ranks may have the result of an operation that the
        others saw fail. So steps are done again from inputs that are made anew, all agree which, and
        nobody leaves before all have everything:

            done, results = 0, {}
            while True:
                try:
                    # Some may be one step ahead: back to what all have done.
                    done = int(comm.all_reduce(numpy.array([done]), "min")[0])
                    while done < steps:
                        results[done] = comm.all_reduce(make_input(comm, done))
                        done += 1
                    comm.barrier()
                    break
                except (nezha.PeerLost, nezha.Aborted):  # Aborted: another rank called shrink()
                    lost, comm = comm, comm.shrink()
                    lost.close()

        A whole program: examples/recovery.py.

        In a network that is partitioned the ranks go on that reach each other, if they are more than half
        of this communicator's, or half and the lowest, or all that have not ended. The option quorum=none
        lets every part go on.

        timeout: seconds; None: the communicator's. Raises TimedOut naming the ranks that did not call
        it, Aborted where a rank aborted its call, also before this one called it (both may be called
        again), and PeerLost where the others lost this rank, or may go on without it.
        """
        return Communicator(self._native.shrink(timeout))

    def abort(self) -> None:
        """Fails the running and all later operations, on every rank, with Aborted."""
        self._native.abort()

    def close(self, *, timeout: Optional[float] = None) -> None:
        """Leaves in order; nothing happens the second time.

        Unfinished asynchronous operations are waited for; after `timeout` seconds (None: their own
        deadlines), or when a signal handler raises (Ctrl-C), they are aborted.
        """
        _final_stats.save(self._native)
        self._native.close(timeout)

    @property
    def closed(self) -> bool:
        """Whether close() was called."""
        return self._native.closed

    def rails(self) -> List[Rail]:
        """This rank's rails: name, address, peers, rate, bytes, state; keys: docs/statistics.md."""
        rails: List[Rail] = self.describe("rails")["rails"]
        return rails

    def stats(self) -> Stats:
        """Counters of operations, frames, system calls and more; keys: docs/statistics.md."""
        return cast("Stats", self.describe("stats"))

    def flight(self) -> Dict[str, Any]:
        """What this rank did last, in all its communicators: docs/debugging.md has the format."""
        return self.describe("flight")

    def dump_flight(self, path: Union[str, "os.PathLike[str]", None] = None) -> str:
        """Writes flight() to a file and returns its name; `nezha flight` reads those of all ranks.

        path: None: where the option flight_dump says, else the working directory.
        Raises InvalidArgument when the file cannot be written.
        """
        return self._native.dump_flight(None if path is None else os.fspath(path))

    def stragglers(self) -> Stragglers:
        """Who is absent from the oldest operation that is open here, and what each rank did last.

        For another thread while one waits, or with async_op. Keys: "operation" (None: none is open),
        "waited_s", "waits_for", "absent" (ranks that have not called it), "ranks": one object a rank with
        "called", "heard_s_ago", "last" (its oldest open operation, else its last one), "open",
        "waits_for_global_rank". At most a second old.
        """
        return cast("Stragglers", self.describe("stragglers"))

    def table(self) -> Dict[str, Any]:
        """What the balancing policy has learned; load_table() restores it."""
        return self.describe("table")

    def load_table(self, table: Union[str, Dict[str, Any]]) -> None:
        """Restores what table() returned, or its JSON text. Raises InvalidArgument where the policy keeps
        no table."""
        self._native.load_table(table if isinstance(table, str) else json.dumps(table))

    def config(self) -> Dict[str, Any]:
        """The configuration in force, and where each value came from."""
        return self.describe("config")

    def describe(self, what: Topic) -> Dict[str, Any]:
        """The parsed answer of nezha_describe: "rails", "table", "config", "stats", "flight" or
        "stragglers".

        "rails" also has the devices that were left out, with their reasons, for every rank.
        """
        answer: Dict[str, Any] = json.loads(self._native.describe(what))
        return answer

    def __enter__(self) -> "Communicator":
        return self

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        if kind is not None and not self.closed:
            self.abort()
        self.close()

    def __repr__(self) -> str:
        state = ", closed" if self.closed else ""
        return f"<nezha.Communicator rank {self.rank} of {self.world_size}{state}>"


class Batch:
    """Operations that start together: see Communicator.batch()."""

    def __init__(self, native: _native.Communicator, timeout: Optional[float],
                 async_op: bool) -> None:
        self._native, self._timeout, self._async_op = native, timeout, async_op
        # When the block has been left: the Work of all operations; its wait() returns the list of
        # their results.
        self.work: Optional[Work[List[Any]]] = None

    def __enter__(self) -> "Batch":
        self._native.group_begin()
        return self

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        if kind is not None:
            self._native.group_cancel()
        else:
            self.work = self._native.group_end(self._timeout, self._async_op)


def _is_renamed(old: str, new: str) -> None:
    warnings.warn(f"Communicator.{old}() is now {new}(); the old name goes with version 0.3",
                  DeprecationWarning, stacklevel=3)


def _close_all() -> None:
    for native, owner in list(_open.items()):
        if owner == os.getpid():
            _final_stats.save(native)
            native.close(_EXIT_SECONDS)


atexit.register(_close_all)
