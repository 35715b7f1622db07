"""The exception classes: their codes, and what they say to programs."""

import pickle
import subprocess
import sys
import threading

import numpy
import pytest

import nezha
from nezha import errors


@pytest.mark.parametrize("code, kind, builtin", [
    (1, errors.InvalidArgument, ValueError), (2, errors.Unsupported, RuntimeError),
    (3, errors.TimedOut, TimeoutError), (4, errors.Exhausted, RuntimeError),
    (5, errors.PeerLost, RuntimeError), (6, errors.Mismatch, RuntimeError),
    (7, errors.Aborted, RuntimeError), (8, errors.Internal, RuntimeError),
    (99, errors.Internal, RuntimeError),
])
def test_codes(code, kind, builtin):
    error = errors.from_code(code, "rank 0: why")
    assert type(error) is kind
    assert isinstance(error, builtin) and isinstance(error, errors.Error)
    assert error.code == min(code, 8)
    assert str(error) == "rank 0: why"


def test_the_native_module_raises_them():
    from nezha import _native

    with pytest.raises(errors.InvalidArgument) as caught:
        _native.query("nothing of the kind", "{}")
    assert str(caught.value)


def test_attributes_without_details():
    error = errors.from_code(5, "rank 0: why")
    assert (error.ranks, error.rail, error.operation, error.communicator) == ((), None, None, None)


def test_only_the_wait_timed_out():
    error = errors.from_code(3, "why", '{"goes_on": true, "operation": "barrier", "new": 1}')
    assert type(error) is errors.WaitTimedOut and isinstance(error, errors.TimedOut)
    assert (error.code, error.operation) == (3, "barrier")
    assert type(errors.from_code(3, "why", '{"goes_on": false}')) is errors.TimedOut


def test_errors_can_be_pickled():
    error = pickle.loads(pickle.dumps(errors.from_code(5, "why", '{"ranks": [2], "rail": "eth1"}')))
    assert (type(error), str(error), error.ranks, error.rail) == (errors.PeerLost, "why", (2,), "eth1")


@pytest.mark.parametrize("call, words", [
    (lambda comm, x: comm.all_reduce(x, op=None), "op is None: it must be a str, one of sum, avg,"),
    (lambda comm, x: comm.all_reduce(x, "premul_sum", factor="2"), "factor is '2': it must be a number"),
    (lambda comm, x: comm.broadcast(x, root=0.5), "root is 0.5: it must be an int, a rank"),
    (lambda comm, x: comm.broadcast(x, root=None), "root is None: it must be an int, a rank"),
    (lambda comm, x: comm.all_reduce(x, algorithm=3), "algorithm is 3: it must be a str such as 'ring'"),
    (lambda comm, x: comm.barrier(timeout="1"), "timeout is '1': it must be a number of seconds"),
    (lambda comm, x: comm.barrier(async_op="no"), "async_op is 'no': it must be True or False"),
    (lambda comm, x: comm.all_gather_v(x, ["4"], out=x), "counts is ['4']: it must be a sequence"),
    (lambda comm, x: comm.send(x, None), "destination is None: it must be an int, a rank"),
    (lambda comm, x: comm.recv(x, 0, tag=1.5), "tag is 1.5: it must be an int"),
    (lambda comm, x: comm.split("red"), "color is 'red': it must be an int, or None"),
    (lambda comm, x: comm.create_group(["0"]), "ranks is ['0']: it must be a sequence of ints"),
    (lambda comm, x: comm.shrink(timeout=x), "timeout is array([1., 1., 1., 1.]): it must be a number"),
])
def test_an_argument_of_a_wrong_type_is_named(call, words):
    with nezha.init(0, 1) as comm:
        with pytest.raises(TypeError) as caught:
            call(comm, numpy.ones(4))
        assert str(caught.value).startswith(words)
        comm.barrier()


def failure_of(call):
    with pytest.raises(nezha.Error) as caught:
        call()
    return caught.value


def test_a_mismatch_names_both_ranks_on_every_rank(world):
    def body(comm):
        x = numpy.ones(8 if comm.rank == 1 else 4, numpy.float32)
        return failure_of(lambda: comm.all_reduce(x))

    for error in world(3, body):
        assert type(error) is nezha.Mismatch and 1 in error.ranks and len(error.ranks) == 2
        assert (error.operation, error.operation_number) == ("all_reduce", 0)
        assert error.operation_bytes in (16, 32) and error.communicator is not None


def test_a_deadline_names_who_was_waited_for(world):
    over = threading.Event()

    def body(comm):
        if comm.rank == 1:
            assert over.wait(30)
            return failure_of(comm.barrier)
        try:
            return failure_of(lambda: comm.barrier(timeout=0.2))
        finally:
            over.set()

    for error in world(2, body):
        assert type(error) is nezha.TimedOut
        assert (error.ranks, error.operation, error.operation_number) == ((1,), "barrier", 0)


def test_a_message_s_deadline(world):
    over = threading.Event()

    def body(comm):
        if comm.rank == 1:
            assert over.wait(30)
            return None
        try:
            return failure_of(lambda: comm.recv(numpy.empty(4), 1, timeout=0.2))
        finally:
            over.set()
            comm.abort()

    error = world(2, body)[0]
    assert type(error) is nezha.TimedOut
    assert (error.ranks, error.operation, error.operation_bytes) == ((1,), "recv", 32)


def test_who_left_too_early(world):
    def body(comm):
        if comm.rank == 1:
            return None
        return failure_of(lambda: comm.all_reduce(numpy.ones(4)))

    error = world(2, body)[0]
    assert type(error) is nezha.PeerLost
    assert (error.ranks, error.operation) == ((1,), "all_reduce")


KILLED = """
import os, sys, time, numpy, nezha
rank, store = int(sys.argv[1]), sys.argv[2]
comm = nezha.init(rank, 3, store, config={"peer_deadline_s": 2})
comm.barrier()
if rank == 2:
    time.sleep(0.2)
    os._exit(1)
try:
    comm.all_reduce(numpy.ones(1000, numpy.float32), timeout=20)
except nezha.PeerLost as error:
    names = [rail["name"] for rail in comm.rails()]
    print(error.ranks, error.rail is None or error.rail in names, error.rail is not None,
          error.operation, error.operation_number, error.operation_bytes)
"""


def test_a_lost_rank_is_named_with_its_rail(tmp_path):
    ranks = [subprocess.Popen([sys.executable, "-c", KILLED, str(rank), f"file://{tmp_path}"],
                              stdout=subprocess.PIPE, text=True) for rank in range(3)]
    said = [rank.communicate(timeout=60)[0].split(") ")[-1].split() for rank in ranks[:2]]
    ranks[2].wait(60)
    for words in said:
        assert words[0] == "True" and words[2:] == ["all_reduce", "1", "4000"]
    assert "True" in (said[0][1], said[1][1])  # at least the rank that noticed it knows the rail


def test_init_names_who_did_not_join(tmp_path):
    error = failure_of(lambda: nezha.init(0, 3, f"file://{tmp_path}", timeout=0.5))
    assert type(error) is nezha.TimedOut and error.ranks == (1, 2)


def test_a_wait_that_ends_first(world):
    begin = threading.Event()

    def body(comm):
        if comm.rank == 1:
            begin.wait(30)
            return comm.broadcast(numpy.ones(4), 1).tolist()
        work = comm.broadcast(numpy.zeros(4), 1, async_op=True)
        error = failure_of(lambda: work.wait(timeout=0.01))
        assert type(error) is nezha.WaitTimedOut
        assert error.operation == "broadcast" and "the broadcast was still running" in str(error)
        begin.set()
        return work.wait().tolist()

    assert world(2, body) == [[1.0] * 4] * 2


def test_the_operation_s_own_deadline_is_no_end_of_the_wait(world):
    over = threading.Event()

    def body(comm):
        if comm.rank == 1:
            assert over.wait(30)
            return None
        work = comm.all_reduce(numpy.ones(4), timeout=0.1, async_op=True)
        try:
            return type(failure_of(lambda: work.wait(timeout=20)))
        finally:
            over.set()
            comm.abort()

    assert world(2, body)[0] is nezha.TimedOut
