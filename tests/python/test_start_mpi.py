"""Ranks that MPI brings: with a stand-in for mpi4py's communicator, and with the real one."""

import os
import pickle
import shutil
import subprocess
import sys
import threading
from pathlib import Path

import pytest

import nezha
from conftest import run_threads
from nezha.launcher.placement import free_port

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
        self.received = b""

    def Get_rank(self):
        return self.rank

    def Get_size(self):
        return self.world.size

    def Allgather(self, mine, everybody):
        self.calls.append(("Allgather", len(mine), len(everybody)))
        everybody[:] = b"".join(self._all(bytes(mine)))

    def Bcast(self, buffer, root=0):
        self.calls.append(("Bcast", len(buffer)))
        self.received = self._all(bytes(buffer))[root]
        buffer[:] = self.received

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


@pytest.mark.parametrize("config, length", [({}, 64), ({"secret": "0123456789abcdef" * 2}, 1)])
def test_every_rank_makes_the_same_calls_and_a_configured_secret_stays(config, length):
    def body(comm):
        with nezha.init(mpi=comm, timeout=_FAR_S, config=config) as nezha_comm:
            nezha_comm.barrier()
        return comm.calls, comm.received

    calls, received = zip(*run_ranks(3, body))
    assert calls[0] == calls[1] == calls[2] == [("Bcast", 2048), ("Allgather", 16, 48)]
    assert received[0] == received[1] == received[2]
    title, secret, *addresses = received[0].rstrip(b"\0").decode().splitlines()
    assert title == "nezha rendezvous 1" and len(secret) == length
    assert addresses and all(each.startswith("tcp://") for each in addresses)


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
            nezha.init(mpi=HostileComm(world, rank), timeout=_FAR_S)

    run_threads(3, body)
    assert not exploited
    assert pickle.loads(pickle.dumps(Exploit())) is None and exploited  # it would have


class AlteringComm(FakeComm):
    """Its broadcast is `alter(bytes)` of what rank 0 sends."""

    def __init__(self, world, rank, alter):
        super().__init__(world, rank)
        self.alter = alter

    def Bcast(self, buffer, root=0):
        super().Bcast(buffer, root)
        altered = self.alter(bytes(buffer).rstrip(b"\0"))
        buffer[:] = altered.ljust(len(buffer), b"\0")[:len(buffer)]


@pytest.mark.parametrize("offer", [b"", b"{", b"nezha", b"nezha rendezvous 2\n-\n", b"[" * 2000])
def test_an_offer_that_is_none_is_refused(offer):
    def body(comm):
        with pytest.raises(nezha.InvalidArgument, match="sent no addresses"):
            nezha.init(mpi=AlteringComm(comm.world, comm.rank, lambda _: offer), timeout=_FAR_S)

    run_ranks(2, body)


def test_one_rank_alone():
    with nezha.init(mpi=FakeComm(FakeWorld(1), 0)) as comm:
        assert comm.world_size == 1


def without_ports(offer, how_many):
    """The offer with addresses at which nobody listens in place of its first ones."""
    title, secret, *addresses = offer.decode().splitlines()
    gone = [each.rsplit(":", 1)[0] + f":{free_port()}" for each in addresses[:how_many]]
    return "\n".join([title, secret, *gone, *addresses[how_many:]]).encode()


def test_an_address_that_one_rank_cannot_reach_is_not_taken():
    def body(comm):
        if comm.rank == 2:
            comm = AlteringComm(comm.world, 2, lambda offer: without_ports(offer, 1))
        with nezha.init(mpi=comm, rails="127.1.0.1,127.2.0.1", timeout=_FAR_S) as nezha_comm:
            return nezha_comm.all_reduce(bytearray([comm.rank, 1]))

    assert run_ranks(3, body) == [bytearray([3, 3])] * 3


def test_no_way_to_rank_0_is_named_on_every_rank():
    def body(comm):
        if comm.rank:
            comm = AlteringComm(comm.world, comm.rank, lambda offer: without_ports(offer, 16))
        with pytest.raises(nezha.InvalidArgument, match="127.0.0.1:[0-9]+ not from rank 1, 2"):
            nezha.init(mpi=comm, rails="lo", timeout=_FAR_S)

    run_ranks(3, body)


def test_what_the_communicator_raises_is_the_cause():
    class Broken(FakeComm):
        def Allgather(self, mine, everybody):
            raise OSError("the fabric of MPI is gone")

    def body(comm):
        with pytest.raises(nezha.Error, match="all_gather of the program's own exchange") as caught:
            nezha.init(mpi=Broken(comm.world, comm.rank), timeout=_FAR_S)
        assert "fabric of MPI is gone" in str(caught.value.__cause__)

    run_ranks(2, body)


def test_a_view_that_was_kept_reaches_nothing():
    kept = []

    class Keeping(FakeComm):
        def Bcast(self, buffer, root=0):
            super().Bcast(buffer, root)
            kept.append(buffer)

    def body(comm):
        nezha.init(mpi=Keeping(comm.world, comm.rank), timeout=_FAR_S).close()

    run_ranks(2, body)
    assert len(kept) == 2
    for buffer in kept:
        with pytest.raises(ValueError, match="released"):
            bytes(buffer)


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
