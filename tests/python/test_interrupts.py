"""Ctrl-C in every call that waits for other ranks: it ends, and what the handler raises arrives."""

import inspect
import os
import signal
import threading
import time

import numpy
import pytest

import nezha
from conftest import run_threads
from nezha.communicator import Batch

_FAR_S = 60.0  # every deadline; a call that does not hear signals ends there


def _grouped(comm):
    with comm.batch():
        comm.all_reduce(numpy.ones(3))


def _left_with_work(comm):
    with comm:
        comm.all_reduce(numpy.ones(3), async_op=True)


def _close(comm):
    comm.all_reduce(numpy.ones(3), async_op=True)
    comm.close()


# What waits for the other rank, which does nothing. A new call of the API belongs here, or below.
_WAITS = {
    "init": lambda comm: nezha.init(1, 2, "tcp://127.0.0.1:1", timeout=_FAR_S),
    "Communicator.__exit__": _left_with_work,
    "wait_all": lambda comm: nezha.wait_all([comm.barrier(async_op=True)]),
    "wait_any": lambda comm: nezha.wait_any([comm.barrier(async_op=True)]),
    "Communicator.all_gather": lambda comm: comm.all_gather(numpy.ones(3)),
    "Communicator.all_gather_v": lambda comm: comm.all_gather_v(numpy.ones(3), counts=[3, 3]),
    "Communicator.all_gather_object": lambda comm: comm.all_gather_object(1),
    "Communicator.all_reduce": lambda comm: comm.all_reduce(numpy.ones(3)),
    "Communicator.all_to_all": lambda comm: comm.all_to_all(numpy.ones(4)),
    "Communicator.all_to_all_v": lambda comm: comm.all_to_all_v(numpy.ones(4), [2, 2],
                                                                receive_counts=[2, 2]),
    "Communicator.barrier": lambda comm: comm.barrier(),
    "Communicator.broadcast": lambda comm: comm.broadcast(numpy.ones(3), root=1),
    "Communicator.broadcast_object": lambda comm: comm.broadcast_object(root=1),
    "Communicator.close": _close,
    "Communicator.gather": lambda comm: comm.gather(numpy.ones(3), root=0),
    "Communicator.gather_object": lambda comm: comm.gather_object(1),
    "Communicator.recv": lambda comm: comm.recv(numpy.ones(3), 1),
    "Communicator.recv_object": lambda comm: comm.recv_object(1),
    "Communicator.reduce": lambda comm: comm.reduce(numpy.ones(3), root=0),
    "Communicator.reduce_scatter": lambda comm: comm.reduce_scatter(numpy.ones(4)),
    "Communicator.reduce_scatter_v": lambda comm: comm.reduce_scatter_v(numpy.ones(4), counts=[2, 2]),
    "Communicator.scatter": lambda comm: comm.scatter(None, root=1, out=numpy.ones(3)),
    "Communicator.scatter_object": lambda comm: comm.scatter_object(root=1),
    "Communicator.send": lambda comm: comm.send(numpy.ones(1 << 22), 1),
    "Communicator.send_object": lambda comm: comm.send_object("x" * (1 << 25), 1),
    "Communicator.sendrecv": lambda comm: comm.sendrecv(numpy.ones(3), 1, numpy.ones(3), 1),
    "Communicator.shrink": lambda comm: comm.shrink(),
    "Communicator.split": lambda comm: comm.split(0),
    "Batch.__exit__": _grouped,
    "Work.wait": lambda comm: comm.barrier(async_op=True).wait(),
}

_RETURNS_AT_ONCE = {
    "log_to_python",
    "Communicator.abort", "Communicator.batch", "Communicator.closed", "Communicator.config",
    "Communicator.create", "Communicator.create_group", "Communicator.describe",
    "Communicator.dump_flight", "Communicator.flight", "Communicator.group",
    "Communicator.load_table", "Communicator.probe", "Communicator.rails", "Communicator.stats",
    "Communicator.stragglers", "Communicator.table", "Communicator.__enter__",
    "Batch.__enter__", "Work.abort", "Work.source", "Work.tag", "Work.test",
}


def _calls():
    found = {name for name in nezha.__all__ if inspect.isfunction(getattr(nezha, name))}
    for kind in (nezha.Communicator, Batch, nezha.Work):
        names = {name for name in dir(kind) if not name.startswith("_")}
        names |= {"__enter__", "__exit__"} & set(dir(kind))
        found |= {f"{kind.__name__}.{name}" for name in names}
    return found


def test_every_call_is_in_the_table():
    assert _calls() == set(_WAITS) | _RETURNS_AT_ONCE


class _Pressed(Exception):
    pass


@pytest.mark.parametrize("name", sorted(_WAITS))
def test_what_a_handler_raises_ends_the_call(name):
    store = f"hash://interrupts-{os.getpid()}-{name}"
    comms = run_threads(2, lambda rank: nezha.init(rank, 2, store, timeout=_FAR_S))

    def handler(*_):
        raise _Pressed

    before = signal.signal(signal.SIGINT, handler)
    timer = threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    begin = time.monotonic()
    try:
        with pytest.raises(_Pressed):
            _WAITS[name](comms[0])
    finally:
        timer.join()
        signal.signal(signal.SIGINT, before)
    assert time.monotonic() - begin < _FAR_S / 3
    for comm in comms:
        if not comm.closed:
            comm.abort()
            comm.close()


def test_a_handler_that_only_notes_ends_nothing():
    store = f"hash://noted-{os.getpid()}"
    comms = run_threads(2, lambda rank: nezha.init(rank, 2, store, timeout=_FAR_S))
    seen = []
    before = signal.signal(signal.SIGINT, lambda *_: seen.append(1))
    os.kill(os.getpid(), signal.SIGINT)
    timer = threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT))
    parts = []
    other = threading.Timer(1, lambda: parts.append(comms[1].split(0)))
    timer.start()
    other.start()
    try:
        parts.append(comms[0].split(0))
    finally:
        timer.join()
        other.join()
        signal.signal(signal.SIGINT, before)
    assert len(seen) == 2 and len(parts) == 2
    for comm in (*parts, *comms):
        comm.close()
