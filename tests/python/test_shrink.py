"""shrink(): the ranks that are left go on."""

import json
import os
import signal
import subprocess
import sys
import textwrap
import threading

import numpy
import pytest

import nezha

RANK = """
import os, sys
import numpy, nezha
rank, world, store = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
comm = nezha.init(rank, world, store=store, timeout=60.0, config={"rails": "127.0.0.1/32"})
told = False
while True:
    try:
        total = int(comm.all_reduce(numpy.array([rank]))[0])
        if not told:
            print(comm.rank, comm.world_size, total, flush=True)
        told = True
    except nezha.PeerLost as error:
        assert "lost rank" in str(error), error
        survivors = comm.shrink()
        comm.close()
        comm, told = survivors, False
"""

# Runs the example of shrink()'s docstring as it stands. The victim dies somewhere inside of a step; what
# the others hold of each step comes out as the different values in it.
EXAMPLE = """
import json, os, signal, sys, threading
import numpy, nezha
born, world, store, victim, delay_s, example = sys.argv[1:]
comm = nezha.init(int(born), int(world), store=store, timeout=60.0, config={"rails": "127.0.0.1/32"})
steps = 6

def make_input(comm, done):
    if born == victim and done == 3:
        threading.Timer(float(delay_s), os.kill, (os.getpid(), signal.SIGKILL)).start()
    return numpy.full(1 << 20, (done + 1) * 10.0 ** int(born))

exec(example)
if born == victim:
    signal.pause()  # so quick that it came to the end: it dies now
print(json.dumps([numpy.unique(results[step]).tolist() for step in range(steps)]))
comm.close()
"""


def example_of(method):
    """The indented block of a docstring."""
    lines = method.__doc__.splitlines()
    return textwrap.dedent("\n".join(line for line in lines if line.startswith(12 * " ")))


def test_without_an_error(world):
    def body(comm):
        with comm.shrink() as again:
            assert (again.rank, again.world_size) == (comm.rank, comm.world_size)
            with pytest.raises(nezha.Aborted, match="shrink"):
                comm.barrier()
            return int(again.all_reduce(numpy.array([comm.rank]))[0])

    assert world(3, body) == [3, 3, 3]


def test_again_and_again(world):
    def body(comm):
        for _ in range(100):  # often enough that one is a call ahead of the other
            part = comm.shrink()
            comm.close()
            comm = part
        return int(comm.all_reduce(numpy.array([1]))[0])

    assert world(2, body) == [2, 2]


def test_after_a_deadline(world):
    entered = threading.Event()

    def body(comm):
        if comm.rank == 1:
            assert entered.wait(30)
        else:
            with pytest.raises(nezha.TimedOut):
                comm.barrier(timeout=0.2)
            entered.set()
        return int(comm.shrink().all_reduce(numpy.array([1]))[0])

    assert world(2, body) == [2, 2]


def test_a_rank_that_left_is_left_out(world):
    def body(comm):
        if comm.rank == 0:
            return None
        with pytest.raises(nezha.PeerLost):
            comm.barrier()
        part = comm.shrink()
        return part.rank, part.world_size, int(part.all_reduce(numpy.array([comm.rank]))[0])

    assert world(3, body) == [None, (0, 2, 3), (1, 2, 3)]


def test_a_split_one_leaves_its_parent_alone(world):
    def body(comm):
        part = comm.split(comm.rank // 2)
        again = part.shrink()
        total = int(again.all_reduce(numpy.array([comm.rank]))[0])
        return total, int(comm.all_reduce(numpy.array([1]))[0])

    assert world(4, body) == [(1, 4), (1, 4), (5, 4), (5, 4)]


def test_the_deadline_names_who_did_not_call(world):
    entered = threading.Event()

    def body(comm):
        if comm.rank == 1:
            return bool(entered.wait(30))
        with pytest.raises(nezha.TimedOut, match="waiting for rank 1;"):
            comm.shrink(timeout=0.3)
        entered.set()
        return True

    assert world(2, body) == [True, True]


def test_abort_from_another_thread(world):
    entered = threading.Barrier(2)

    def body(comm):
        if comm.rank == 0:
            stop = threading.Event()

            def keep_aborting():
                while not stop.wait(0.01):
                    comm.abort()

            aborter = threading.Thread(target=keep_aborting)
            aborter.start()
            with pytest.raises(nezha.Aborted):
                comm.shrink()
            stop.set()
            aborter.join()
        else:
            with pytest.raises(nezha.Aborted):
                comm.barrier()
        entered.wait(30)
        return True

    assert world(2, body) == [True, True]


def test_killed_processes(tmp_path):
    ranks = {rank: subprocess.Popen([sys.executable, "-c", RANK, str(rank), "4", f"file://{tmp_path}"],
                                    stdout=subprocess.PIPE, text=True) for rank in range(4)}
    try:
        for victim in (None, 2, 0):
            if victim is not None:
                os.kill(ranks[victim].pid, signal.SIGKILL)
                ranks.pop(victim).communicate()
            expected = [(place, len(ranks), sum(ranks)) for place in range(len(ranks))]
            assert [tuple(map(int, process.stdout.readline().split()))
                    for process in ranks.values()] == expected
    finally:
        for process in ranks.values():
            process.kill()
            process.communicate()


@pytest.mark.parametrize("victim, delay_s", [(1, 0.0), (0, 0.002), (2, 0.005), (1, 0.02)])
def test_the_example_with_a_rank_killed(tmp_path, victim, delay_s):
    ranks = [subprocess.Popen(
        [sys.executable, "-c", EXAMPLE, str(rank), "3", f"file://{tmp_path}", str(victim), str(delay_s),
         example_of(nezha.Communicator.shrink)], stdout=subprocess.PIPE, text=True) for rank in range(3)]
    try:
        outputs = [process.communicate(timeout=120)[0] for process in ranks]
    finally:
        for process in ranks:
            process.kill()
            process.communicate()
    assert [process.returncode for process in ranks] == [
        -signal.SIGKILL if rank == victim else 0 for rank in range(3)]
    held = [json.loads(output) for rank, output in enumerate(outputs) if rank != victim]
    assert held[0] == held[1]
    rest = 111 - 10 ** victim
    wholes = [[[111.0 * (step + 1)] for step in range(first)]
              + [[float(rest) * (step + 1)] for step in range(first, 6)] for first in range(3, 7)]
    assert held[0] in wholes, held[0]


def test_the_example_where_some_have_a_step_that_others_saw_fail(world):
    """Rank 0 aborts as soon as it has a step; the others often do not have it yet."""
    def body(comm):
        to_abort = {1, 2, 3, 5}

        def make_input(comm, done):
            if comm.rank == 0 and done in to_abort:
                to_abort.remove(done)
                comm.abort()
            return numpy.full(1 << 18, float((done + 1) * 10 ** comm.rank))

        names = {"comm": comm, "steps": 6, "make_input": make_input, "numpy": numpy, "nezha": nezha}
        exec(example_of(nezha.Communicator.shrink), names)
        names["comm"].close()
        return [numpy.unique(names["results"][step]).tolist() for step in range(6)]

    assert world(3, body) == [[[111.0 * (step + 1)] for step in range(6)]] * 3
