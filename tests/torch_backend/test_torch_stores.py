"""torch.distributed's stores as rendezvous, and jobs that torchrun starts."""

import datetime
import json
import socket
import subprocess
import sys
import threading

import pytest
import torch.distributed

import nezha
from nezha._startup import stores
from nezha.torch import _reconfigure

_FAR_S = 600.0
_PATIENCE_S = 240


def make_stores(kind, count, directory):
    """A store object per rank; one object for all where it lives in this process only."""
    distributed = torch.distributed
    if kind == "hash":
        return [distributed.HashStore()] * count
    if kind == "file":
        return [distributed.FileStore(str(directory / "store"), count) for _ in range(count)]
    timeout = datetime.timedelta(seconds=60)
    first = distributed.TCPStore("127.0.0.1", 0, is_master=True, timeout=timeout)
    rest = [distributed.TCPStore("127.0.0.1", first.port, is_master=False, timeout=timeout)
            for _ in range(count - 1)]
    every = [first, *rest]
    return every if kind == "tcp" else [distributed.PrefixStore("p", each) for each in every]


KINDS = ("hash", "file", "tcp", "prefix")


@pytest.mark.parametrize("kind", KINDS)
def test_adapter(kind, tmp_path, capfd):
    store, other = map(stores.adapt, make_stores(kind, 2, tmp_path))
    blob = bytes(range(256))
    store.set("a", blob, 1.0)
    assert other.get("a", 10.0) == blob
    assert other.set_if_absent("b", blob, 1.0) == blob
    assert store.set_if_absent("b", b"second", 1.0) == blob
    store.remove("a", 1.0)
    for timeout in (0.0, 0.05):
        with pytest.raises(nezha.TimedOut, match="'a'"):
            store.get("a", timeout)
    threading.Timer(0.05, other.set, ("late", b"v", 1.0)).start()
    assert store.get("late", 60.0) == b"v"
    assert capfd.readouterr().err == "", "waiting is no warning"


@pytest.mark.parametrize("kind", KINDS)
def test_jobs_meet_in_it_one_after_the_other(kind, tmp_path):
    shared = make_stores(kind, 3, tmp_path)
    outcomes = {}

    def body(rank):
        for round_ in range(2):
            with nezha.init(rank, 3, shared[rank], timeout=_FAR_S) as comm:
                outcomes[rank, round_] = comm.all_reduce(bytearray([rank + round_]))

    threads = [threading.Thread(target=body, args=(rank,), daemon=True) for rank in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(_PATIENCE_S)
    assert outcomes == {(rank, round_): bytearray([3 + 3 * round_])
                        for rank in range(3) for round_ in range(2)}


def torchrun(tmp_path, body, *options):
    """(exit code, output) of two ranks of a script under torchrun."""
    script = tmp_path / "job.py"
    script.write_text(body)
    done = subprocess.run(
        [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", *options,
         str(script)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        timeout=_PATIENCE_S, check=False)
    return done.returncode, done.stdout


_JOB = """
import os, nezha
for round in range(2):
    with nezha.init(timeout=600) as comm:
        assert comm.world_size == 2 and comm.rank == int(os.environ["RANK"])
        assert comm.all_reduce(bytearray([comm.rank + 1])) == bytearray([3])
with nezha.init(timeout=600) as one, nezha.init(timeout=600) as two:
    one.barrier()
    two.barrier()
"""


def test_under_torchrun(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = str(free.getsockname()[1])
    code, output = torchrun(tmp_path, _JOB, "--master-port", port)
    assert code == 0, output


def test_the_store_of_a_reconfigured_group_answers_on_the_address_of_its_handle_alone(monkeypatch):
    monkeypatch.setattr(socket, "gethostname", lambda: "127.0.0.2")
    store = _reconfigure.ReconfigureStore()
    place = json.loads(store.handle)
    assert place["hosts"] == ["127.0.0.2"]
    member = torch.distributed.TCPStore("127.0.0.2", place["port"], is_master=False)
    member.set("key", "value")
    assert member.get("key") == b"value"
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.3", place["port"]), timeout=10)
    store.close()


def test_a_restart_by_torchrun_is_a_job_of_its_own(tmp_path):
    body = """
import os, nezha
comm = nezha.init(timeout=600)
if os.environ["TORCHELASTIC_RESTART_COUNT"] == "0":
    comm.barrier()
    if comm.rank == 1: os._exit(7)
comm.all_reduce(bytearray([1]))
# In one write: the ranks share the pipe.
os.write(1, f"round {os.environ['TORCHELASTIC_RESTART_COUNT']} is through\\n".encode())
"""
    code, output = torchrun(tmp_path, body, "--standalone", "--max-restarts", "1")
    assert code == 0, output
    assert output.count("round 1 is through") == 2, output


def test_beside_torch_s_own_process_group(tmp_path):
    body = """
import nezha, torch, torch.distributed
torch.distributed.init_process_group("gloo")
with nezha.init(timeout=600) as comm:
    x = torch.ones(1000)
    comm.all_reduce(x)
    torch.distributed.all_reduce(x)
    assert (x == 4).all()
torch.distributed.destroy_process_group()
"""
    code, output = torchrun(tmp_path, body, "--standalone")
    assert code == 0, output
