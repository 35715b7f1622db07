"""What arrays hold after an operation failed: docs/failure_model.md."""

from __future__ import annotations

import threading
import time
from typing import Any, Callable, Dict, List, Tuple

import numpy
import pytest

import nezha

RANKS = 3
COUNT = 1 << 18  # elements of a block
ROOT = 0
# When the communicator is aborted: at once, and when more and more of the operation is through.
DELAYS_S = (0.0, 0.0005, 0.001, 0.002, 0.004, 0.008)

# Of a rank: what starts the operation, and the arrays that it only reads.
Started = Tuple[Callable[[], Any], List[numpy.ndarray]]


def values(comm: Any, blocks: int = 1) -> numpy.ndarray:
    """Different in every element and on every rank, so that any change shows."""
    return numpy.arange(blocks * COUNT, dtype=numpy.float64) + 1000.0 * (comm.rank + 1)


def apart(algorithm: str, op: str = "sum") -> Callable[[Any], Started]:
    def start(comm: Any) -> Started:
        x = values(comm)
        factor = 3.0 if op == "premul_sum" else None
        return lambda: comm.all_reduce(x, op, out=numpy.empty_like(x), factor=factor,
                                       algorithm=algorithm, async_op=True), [x]
    return start


def reduce(comm: Any) -> Started:
    x = values(comm)
    return lambda: comm.reduce(x, ROOT, async_op=True), [] if comm.rank == ROOT else [x]


def broadcast(comm: Any) -> Started:
    x = values(comm)
    return lambda: comm.broadcast(x, ROOT, async_op=True), [x] if comm.rank == ROOT else []


def all_gather(algorithm: str) -> Callable[[Any], Started]:
    def start(comm: Any) -> Started:
        out = numpy.zeros((RANKS, COUNT))
        out[comm.rank] = values(comm)
        own = out[comm.rank]
        return lambda: comm.all_gather(own, out=out, algorithm=algorithm, async_op=True), [own]
    return start


def gather(comm: Any) -> Started:
    x = values(comm)
    return lambda: comm.gather(x, root=ROOT, async_op=True), [x]


def scatter(comm: Any) -> Started:
    x = values(comm, RANKS)
    own = x[ROOT * COUNT:(ROOT + 1) * COUNT] if comm.rank == ROOT else numpy.zeros(COUNT)
    return lambda: comm.scatter(x, ROOT, out=own, async_op=True), [x] if comm.rank == ROOT else []


def reduce_scatter(comm: Any) -> Started:
    x = values(comm, RANKS)
    blocks = [x[rank * COUNT:(rank + 1) * COUNT] for rank in range(RANKS)]
    return (lambda: comm.reduce_scatter(x, out=blocks[comm.rank], async_op=True),
            [block for rank, block in enumerate(blocks) if rank != comm.rank])


def all_to_all(comm: Any) -> Started:
    x = values(comm, RANKS)
    return lambda: comm.all_to_all(x, async_op=True), [x]


def send(comm: Any) -> Started:
    x = values(comm)
    if comm.rank == ROOT:
        return lambda: comm.send(x, 1, async_op=True), [x]
    return lambda: comm.recv(x, ROOT, async_op=True), []


OPERATIONS: Dict[str, Callable[[Any], Started]] = {
    **{f"all_reduce-{name}": apart(name)
       for name in ("ring", "halving_doubling", "recursive_doubling", "bcube")},
    "all_reduce-avg": apart("ring", "avg"), "all_reduce-premul": apart("ring", "premul_sum"),
    **{f"all_gather-{name}": all_gather(name) for name in ("ring", "bruck", "direct")},
    "reduce": reduce, "broadcast": broadcast, "gather": gather, "scatter": scatter,
    "reduce_scatter": reduce_scatter, "all_to_all": all_to_all, "send": send,
}


@pytest.mark.parametrize("name", OPERATIONS)
def test_what_is_only_read_is_as_it_was(world, name):
    together = threading.Barrier(RANKS)

    def attempt(comm: Any, delay_s: float) -> int:
        start, only_read = OPERATIONS[name](comm)
        kept = [array.copy() for array in only_read]
        together.wait(30)
        failed = 0
        try:
            work = start()  # raises where the others are so quick that it never begins
            if comm.rank == 1:
                time.sleep(delay_s)
                comm.abort()
            work.wait()
        except nezha.Aborted:
            failed = 1
        together.wait(30)  # nothing may be written later either
        assert all((array == before).all() for array, before in zip(only_read, kept)), delay_s
        return failed

    def body(comm: Any) -> int:
        failed = 0
        for delay_s in DELAYS_S:
            failed += attempt(comm, delay_s)
            comm, over = comm.shrink(), comm
            over.close()
        return failed

    assert sum(world(RANKS, body)) > 0


def test_a_refused_call_touches_nothing_and_harms_nothing(world):
    def body(comm: Any) -> float:
        x, out = values(comm), numpy.zeros(COUNT)
        with pytest.raises(nezha.Unsupported):
            comm.all_reduce(x, "band", out=out)
        with pytest.raises(nezha.InvalidArgument):
            comm.all_reduce(x, out=x[1:])
        assert (x == values(comm)).all() and not out.any()
        return float(comm.all_reduce(x)[0])

    assert world(2, body) == [3000.0, 3000.0]
