"""Asynchronous operations: handles, deadlines, dropped handles, abort, the GIL, Ctrl-C."""

import gc
import signal
import subprocess
import sys
import threading
import time

import numpy
import pytest

import nezha


def test_wait_returns_the_array(world):
    def body(comm):
        x = numpy.full(100, comm.rank + 1.0)
        work = comm.all_reduce(x, async_op=True)
        assert work.wait() is x
        assert work.wait() is x and work.test() is True  # again, as often as one likes
        return x[0]

    assert world(3, body) == [6.0] * 3


def test_many_at_once_and_out_of_order(world):
    def body(comm):
        arrays = [numpy.full(1000, float(i)) for i in range(20)]
        works = [comm.all_reduce(x, async_op=True) for x in arrays]
        for work in reversed(works):
            work.wait()
        return [x[0] for x in arrays]

    assert world(2, body) == [[2.0 * i for i in range(20)]] * 2


def test_a_call_costs_the_same_however_many_are_under_way(world):
    begin = threading.Event()
    count = 64

    def body(comm):
        if comm.rank == 1:
            begin.wait(30)
        arrays = [numpy.full(1, comm.rank + 1.0) for _ in range(count)]
        before = comm.stats()
        works = [comm.all_reduce(x, async_op=True) for x in arrays]
        called = comm.stats()
        begin.set()
        for work in works:
            work.wait()
        assert all(x[0] == 3.0 for x in arrays)
        if comm.rank == 0:
            # No call asks for each of those before it, and their frames leave together.
            assert called["polls"] - before["polls"] < count * 8
            assert called["send_calls"] - before["send_calls"] < count
        return True

    assert world(2, body) == [True] * 2


def test_test_and_wait_with_a_deadline(world):
    begin = threading.Event()

    def body(comm):
        if comm.rank == 1:
            begin.wait(30)
            return comm.all_reduce(numpy.ones(4)).tolist()
        x = numpy.ones(4)
        work = comm.all_reduce(x, async_op=True)
        assert work.test() is False
        with pytest.raises(nezha.TimedOut, match="continues"):
            work.wait(timeout=0.01)
        begin.set()
        return work.wait(timeout=30).tolist()

    assert world(2, body) == [[2.0] * 4] * 2


def test_buffers_live_as_long_as_the_operation(world):
    begin = threading.Event()

    def body(comm):
        if comm.rank == 1:
            begin.wait(30)
            comm.all_reduce(numpy.ones(1 << 16))
            comm.barrier()
            return None
        comm.all_reduce(numpy.ones(1 << 16), async_op=True)  # neither handle nor array is kept
        gc.collect()
        junk = [numpy.zeros(1 << 16) for _ in range(8)]
        begin.set()
        comm.barrier()
        return all((x == 0).all() for x in junk)

    assert world(2, body)[0] is True


def test_close_waits_for_unfinished_operations(world):
    begin = threading.Event()

    def body(comm):
        x = numpy.ones(8)
        if comm.rank == 1:
            begin.wait(30)
            return comm.all_reduce(x).tolist()
        comm.all_reduce(x, async_op=True)
        threading.Timer(0.1, begin.set).start()
        comm.close()
        return x.tolist()

    assert world(2, body) == [[2.0] * 8] * 2


def test_close_with_a_limit_aborts(world):
    """Rank 1 never comes: rank 0 leaves all the same."""
    left = threading.Event()

    def body(comm):
        if comm.rank == 1:
            assert left.wait(30)
            return True
        work = comm.all_reduce(numpy.ones(8), async_op=True)
        comm.close(timeout=0.05)
        left.set()
        with pytest.raises(nezha.Error):
            work.wait()
        return True

    assert world(2, body) == [True, True]


def test_the_operation_s_own_deadline(world):
    over = threading.Event()

    def body(comm):
        if comm.rank == 1:
            assert over.wait(30)
            return True
        try:
            with pytest.raises(nezha.TimedOut):
                comm.all_reduce(numpy.ones(8), timeout=0.2)
            return True
        finally:
            over.set()
            comm.abort()

    assert world(2, body) == [True, True]


def test_abort_wakes_a_blocked_rank(world):
    def body(comm):
        if comm.rank == 1:
            time.sleep(0.05)
            comm.abort()
            return True
        with pytest.raises(nezha.Aborted):
            comm.all_reduce(numpy.ones(8))
        return True

    assert world(2, body) == [True, True]


def test_an_exception_in_the_block_aborts(world):
    def body(comm):
        if comm.rank == 1:
            with pytest.raises(KeyError):
                with comm:
                    raise KeyError("a bug of the program")
            return True
        with pytest.raises((nezha.Aborted, nezha.PeerLost)):
            comm.all_reduce(numpy.ones(8))
        return True

    assert world(2, body) == [True, True]


def test_other_threads_run_while_one_waits(world):
    """The GIL: rank 1 can only come because rank 0's wait lets Python run."""
    def body(comm):
        if comm.rank == 1:
            total = sum(range(200000))
            comm.barrier()
            return total
        comm.barrier()
        return 19999900000

    assert world(2, body) == [19999900000] * 2


def test_closed_communicators_say_so():
    comm = nezha.init()
    assert "rank 0 of 1" in repr(comm)
    comm.close()
    comm.close()
    assert comm.closed and "closed" in repr(comm)
    for call in (lambda: comm.all_reduce(numpy.ones(2)), comm.barrier, comm.rails,
                 lambda: comm.split(0), comm.abort):
        with pytest.raises(nezha.InvalidArgument, match="closed"):
            call()


def test_dropping_a_communicator_closes_it(world):
    def body(comm):
        child = comm.split(0)
        child.all_reduce(numpy.ones(2), async_op=True)
        comm.barrier()
        del child
        gc.collect()
        return comm.all_reduce(numpy.ones(1))[0]

    assert world(2, body) == [2.0, 2.0]


STUCK = """
import sys, threading, numpy, nezha
def other():
    with nezha.init(1, 2, "hash://stuck") as comm:
        gate.wait()
gate = threading.Event()
threading.Thread(target=other, daemon=True).start()
comm = nezha.init(0, 2, "hash://stuck")
print("ready", flush=True)
try:
    comm.all_reduce(numpy.ones(4))
except KeyboardInterrupt:
    print("interrupted", flush=True)
"""

FORGOTTEN = """
import threading, numpy, nezha
def other():
    comm = nezha.init(1, 2, "hash://forgotten")
    threading.Event().wait()
threading.Thread(target=other, daemon=True).start()
comm = nezha.init(0, 2, "hash://forgotten")
work = comm.all_reduce(numpy.ones(4), async_op=True)
print("ready", flush=True)
"""


def test_ctrl_c_ends_a_blocked_operation():
    child = subprocess.Popen([sys.executable, "-c", STUCK], stdout=subprocess.PIPE, text=True)
    assert child.stdout.readline() == "ready\n"
    time.sleep(0.2)
    child.send_signal(signal.SIGINT)
    assert child.communicate(timeout=30)[0] == "interrupted\n"
    assert child.returncode == 0


def test_the_interpreter_ends_with_an_operation_unfinished():
    child = subprocess.run([sys.executable, "-c", FORGOTTEN], capture_output=True, text=True,
                           timeout=30)
    assert (child.returncode, child.stdout, child.stderr) == (0, "ready\n", "")
