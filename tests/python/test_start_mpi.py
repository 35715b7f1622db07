"""Rendezvous over MPI: with a stand-in for mpi4py's communicator, and with the real one."""

import os
import pickle
import shutil
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest

import nezha
from conftest import run_threads
from nezha.launcher.placement import free_port
from nezha._startup import mpi_rendezvous

_FAR_S = 600.0


class FakeWorld:
    """What the ranks of one FakeComm share: a slot each, and two barriers around reading them."""

    def __init__(self, size):
        self.size = size
        self.slots = [None] * size
        self.barrier = threading.Barrier(size, timeout=60)


class FakeComm:
    """The part of mpi4py.MPI.Comm that is used; ranks are threads."""

    def __init__(self, world, rank):
        self.world, self.rank = world, rank
        self.calls = []

    def Get_rank(self):
        return self.rank

    def Get_size(self):
        return self.world.size

    def Allgather(self, mine, everybody):
        self.calls.append(("Allgather", len(mine), len(everybody)))
        everybody[:] = b"".join(self._all(bytes(mine)))

    def Bcast(self, buffer, root=0):
        self.calls.append(("Bcast", len(buffer)))
        buffer[:] = self._all(bytes(buffer))[root]

    def _all(self, value):
        self.world.slots[self.rank] = value
        self.world.barrier.wait()
        values = list(self.world.slots)
        self.world.barrier.wait()
        return values


def run_ranks(size, body):
    world = FakeWorld(size)
    return run_threads(size, lambda rank: body(FakeComm(world, rank)))


def test_ranks_and_address_come_from_mpi():
    def body(comm):
        with nezha.init(mpi=comm, timeout=_FAR_S) as nezha_comm:
            assert (nezha_comm.rank, nezha_comm.world_size) == (comm.rank, 4)
            return nezha_comm.all_reduce(bytearray([comm.rank, 1]))

    assert run_ranks(4, body) == [bytearray([6, 4])] * 4


def test_every_rank_makes_the_same_calls_and_gets_the_same_answer():
    def body(comm):
        met = mpi_rendezvous.meet(comm, {}, {})
        return comm.calls, met.store, met.secret

    calls, store, secret = zip(*run_ranks(3, body))
    assert calls[0] == calls[1] == calls[2]
    assert len(set(store)) == len(set(secret)) == 1
    assert store[0].startswith("tcp://") and len(secret[0]) == 64


@pytest.mark.parametrize("env, config", [({"NEZHA_SECRET_FILE": "/s"}, {}), ({}, {"secret": "x"})])
def test_a_configured_secret_stays(env, config):
    def body(comm):
        return mpi_rendezvous.meet(comm, env, config).secret

    assert run_ranks(2, body) == [None, None]


exploited = []


def exploit():
    exploited.append(1)


class Exploit:
    """What runs code where it is unpickled."""

    def __reduce__(self):
        return exploit, ()


class HostileComm(FakeComm):
    """Rank 0 sends pickled code in every message; a communicator of mpi4py unpickles in these two."""

    def bcast(self, value, root=0):
        return pickle.loads(self._all(pickle.dumps(Exploit()))[root])

    def allgather(self, value):
        return [pickle.loads(each) for each in self._all(pickle.dumps(Exploit()))]

    def Bcast(self, buffer, root=0):
        code = pickle.dumps(Exploit()).ljust(len(buffer), b".")[:len(buffer)]
        buffer[:] = self._all(code if self.rank == root else bytes(buffer))[root]


def test_what_other_ranks_send_is_never_code():
    world = FakeWorld(3)

    def body(rank):
        with pytest.raises(nezha.InvalidArgument, match="sent no addresses"):
            mpi_rendezvous.meet(HostileComm(world, rank), {}, {})

    run_threads(3, body)
    assert not exploited
    assert pickle.loads(pickle.dumps(Exploit())) is None and exploited  # it would have


@pytest.mark.parametrize("offer", [b"", b"{", b"[1]", b"[[1, 2, 3]]", b'[["a", "b"]]', b"[" * 2000, b"7"])
def test_an_offer_that_is_none_is_refused(offer):
    with pytest.raises(nezha.InvalidArgument, match="sent no addresses"):
        mpi_rendezvous._addresses(offer)


def test_one_rank_alone():
    with nezha.init(mpi=FakeComm(FakeWorld(1), 0)) as comm:
        assert comm.world_size == 1


def test_an_address_that_one_rank_cannot_reach_is_not_taken(monkeypatch):
    reach = mpi_rendezvous._reach
    this = threading.local()
    monkeypatch.setattr(mpi_rendezvous, "_listen", lambda: listeners("127.0.0.1", "127.0.0.2"))
    monkeypatch.setattr(mpi_rendezvous, "_reach",
                        lambda all_: [False] + reach(all_)[1:] if this.rank == 2 else reach(all_))

    def body(comm):
        this.rank = comm.rank
        return mpi_rendezvous.meet(comm, {}, {}).store

    store = run_ranks(3, body)
    assert store[0].startswith("tcp://127.0.0.2:") and len(set(store)) == 1


def test_no_way_to_rank_0_is_named_on_every_rank(monkeypatch):
    monkeypatch.setattr(mpi_rendezvous, "_listen", lambda: listeners("127.0.0.1"))
    monkeypatch.setattr(mpi_rendezvous, "_reach", lambda all_: [False] * len(all_))

    def body(comm):
        with pytest.raises(nezha.InvalidArgument, match="127.0.0.1 not from rank 1, 2"):
            mpi_rendezvous.meet(comm, {}, {})

    run_ranks(3, body)


def listeners(*addresses):
    return [socket.create_server((address, 0)) for address in addresses]


def test_what_does_not_fit_is_refused():
    with pytest.raises(nezha.InvalidArgument, match="Get_rank"):
        nezha.init(mpi=object())
    with pytest.raises(nezha.InvalidArgument, match="pass none of them"):
        nezha.init(0, mpi=FakeComm(FakeWorld(1), 0))


# Files, because what several ranks print at a time is mixed.
SUM = """import os
    with open(os.path.join(os.environ["OUT"], str(comm.rank)), "w") as file:
        print(list(comm.all_reduce(bytearray([comm.rank, 1]))), file=file)
"""
SUMS = {str(rank): "[3, 3]\n" for rank in range(3)}


@pytest.fixture(name="mpiexec")
def an_mpi_that_is_installed(tmp_path):
    """mpiexec(script, **variables): runs three ranks of it; what each wrote into $OUT, by its rank."""
    launcher = Path(sys.executable).with_name("mpiexec")
    command = str(launcher) if launcher.exists() else shutil.which("mpiexec")
    assert command is not None, "mpiexec is missing: pip install mpich brings it, as make test does"

    def run(script, **variables):
        done = subprocess.run([command, "-n", "3", sys.executable, "-c", script], capture_output=True,
                              text=True, timeout=120, check=False,
                              env={**os.environ, "OUT": str(tmp_path), **variables})
        assert done.returncode == 0, done.stderr
        return {file.name: file.read_text() for file in tmp_path.iterdir()}

    return run


def test_real_mpi(mpiexec):
    assert mpiexec(f"""
from mpi4py import MPI
import nezha
with nezha.init(mpi=MPI.COMM_WORLD, timeout=600) as comm:
    assert comm.rank == MPI.COMM_WORLD.Get_rank()
    {SUM}
""") == SUMS


def test_variables_of_a_real_mpiexec(mpiexec):
    assert mpiexec(f"""
import nezha
with nezha.init(timeout=60) as comm:
    {SUM}
""", MASTER_ADDR="127.0.0.1", MASTER_PORT=str(free_port())) == SUMS
