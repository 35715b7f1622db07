"""Rails of libfabric in labs: real jobs over its software provider, on wires that are shaped and cut.

Rates are low, so that the wires and not this machine's processors are the limit. Nothing depends on
absolute times. Who carried what is what the devices count.
"""

from __future__ import annotations

import ctypes
import json
import os
import subprocess
import sys
from typing import Dict, List

import pytest
from conftest import eventually, nezha_lab
from rails_job import Job, share

from nezha.lab import Lab, LabError, format_rail, parse_rail, parse_rate
from nezha_tools.lab._process import rail_filter

MB = 1 << 20


def _has_libfabric() -> bool:
    try:
        ctypes.CDLL("libfabric.so.1")
    except OSError:
        return False
    return True


ofi = pytest.mark.skipif(not _has_libfabric(), reason="libfabric is not installed")


# ------------------------------------------------------------------------- what is asked for

@pytest.mark.parametrize("text, kind, printed", [
    ("1gbit", "tcp", "1gbit"), ("tcp:500mbit", "tcp", "500mbit"), ("ofi:0.5gbit", "ofi", "ofi:500mbit"),
    ("ofi:none", "ofi", "ofi:none"), ("ofi:shm", "shm", "ofi:shm")])
def test_rails_are_read_and_printed(text: str, kind: str, printed: str) -> None:
    rail = parse_rail(text)
    assert rail.kind == kind
    assert format_rail(kind, parse_rate(rail.rate)) == printed


@pytest.mark.parametrize("rails", [["ib:1gbit"], ["ofi:"], ["ofi:fast"], ["tcp:shm"], ["shm"],
                                   ["ofi:shm", "1gbit"]])
def test_other_rails_are_refused_before_anything_is_made(rails: List[str]) -> None:
    with pytest.raises(LabError, match="rail|rate"):
        Lab(2, rails)


def test_shared_memory_needs_one_host() -> None:
    with pytest.raises(LabError, match="one host"):
        Lab(2, ["ofi:shm"], mode="root").up()


def test_every_kind_has_its_entry_in_the_filter() -> None:
    with Lab(2, ["none", "ofi:none", "ofi:shm"], mode="loopback") as lab:
        assert lab.rails() == ["none", "ofi:none", "ofi:shm"]
        assert lab.rank_env(1)["NEZHA_RAILS"] == "127.1.0.2/32,ofi:127.2.0.2,ofi:shm"
        assert lab.rank_env(1)["NEZHA_SHM"] == "off"
        assert rail_filter(lab.state, 0, 1) == "ofi:127.2.0.1"


@pytest.mark.usefixtures("namespaces")
def test_the_command_says_what_each_rail_is() -> None:
    name = "ofi-words"
    made = nezha_lab("up", "--nodes", "2", "--rates", "ofi:200mbit,100mbit", "--name", name)
    try:
        assert made.returncode == 0, made.stderr
        assert "rails ofi:200mbit, 100mbit" in made.stdout
        lab = Lab.attach(name)
        assert lab.rank_env(0)["NEZHA_RAILS"] == "=eth1,ofi:eth0"
        assert [port["kind"] for port in lab.status()["nodes"][1]["ports"]] == ["ofi", "tcp"]
        assert json.loads(nezha_lab("status", "--name", name, "--json").stdout)[0]["rail_kinds"] == [
            "ofi", "tcp"]
    finally:
        nezha_lab("down", "--name", name)


# -------------------------------------------------------------------------------- who carries

def transports(job: Job) -> Dict[str, str]:
    """What carries each rail, as every rank says."""
    known = [{rail["name"]: rail["transport"] for rail in rank["rails"]} for rank in job.describe()]
    assert all(each == known[0] for each in known), known
    return known[0]


def carried(lab: Lab) -> List[List[int]]:
    """Bytes sent by node and rail up to now, as the devices count them."""
    return [[port["tx_bytes"] for port in node["ports"]] for node in lab.status()["nodes"]]


@ofi
@pytest.mark.usefixtures("namespaces")
@pytest.mark.parametrize("nodes", [2, 4])
def test_ofi_alone_is_exact(nodes: int) -> None:
    with Lab(nodes, ["ofi:200mbit"]) as lab, Job(lab) as job:
        assert transports(job) == {"eth0": "ofi"}
        before = carried(lab)
        for size in (4, 8 * 1024, 2 * MB + 4):
            job.all_reduce(size, 2)
        for (sent,), (was,) in zip(carried(lab), before):
            assert sent - was > 2 * MB


@ofi
@pytest.mark.usefixtures("namespaces")
@pytest.mark.parametrize("rails, fair", [(["200mbit", "ofi:200mbit"], 0.5),
                                         (["ofi:200mbit", "100mbit"], 0.67)])
def test_tcp_and_ofi_carry_one_operation_together(rails: List[str], fair: float) -> None:
    with Lab(2, rails) as lab, Job(lab) as job:
        assert sorted(transports(job).values()) == ["ofi", "tcp"]
        before = carried(lab)
        job.all_reduce(4 * MB, 8)
        for now, was in zip(carried(lab), before):
            assert min(sent - had for sent, had in zip(now, was)) > 4 * MB
        assert eventually(lambda: abs(share(job.all_reduce(4 * MB)[0], "eth0") - fair) < 0.15)


@ofi
@pytest.mark.usefixtures("namespaces")
@pytest.mark.parametrize("silent", [False, True])
def test_an_ofi_rail_is_cut_in_mid_job_and_comes_back(silent: bool) -> None:
    with Lab(2, ["200mbit", "ofi:200mbit"]) as lab, \
            Job(lab, peer_deadline_s=2, timeout_s=30) as job:
        assert eventually(lambda: share(job.all_reduce(4 * MB)[0], "eth1") > 0.3)
        lab.cut(1, 1, silent=silent)
        # Exact, and over the other rail, once the cut has been noticed.
        assert eventually(lambda: share(job.all_reduce(2 * MB)[0], "eth1") == 0)
        lab.restore(1, 1)
        assert eventually(lambda: share(job.all_reduce(4 * MB)[0], "eth1") > 0.3, 40)


@ofi
def test_shared_memory_alone_and_beside_an_address() -> None:
    for rails, kinds in ((["ofi:shm"], ["ofi"]), (["ofi:none", "none"], ["ofi", "tcp"])):
        with Lab(2, rails, mode="loopback") as lab, Job(lab) as job:
            assert sorted(rail["transport"] for rail in job.describe()[0]["rails"]) == kinds
            for size in (4, 64 * 1024, 2 * MB):
                job.all_reduce(size, 2)


# ----------------------------------------------------------- ranks that have no rail but libfabric's

_ABORT_IN_THE_MIDDLE = """
import time
import numpy as np
import nezha

comm = nezha.init()
struck = 0
for attempt in range(40):
    other = comm.split(0, comm.rank)
    middle = np.zeros(1, np.float32)
    comm.barrier()
    try:
        work = other.all_reduce(np.ones(16 << 20, np.float32), async_op=True)
        if comm.rank == 1:
            time.sleep(0.005)
            other.abort()
        work.wait()
    except nezha.Aborted as error:
        assert "rank 1 aborted" in str(error), error
        middle[0] = 1
    comm.all_reduce(middle)
    struck += middle[0] == 2  # of both ranks
    if struck == 3:
        break
assert struck == 3, struck
"""

_STRUCK = """
import os
import signal
import subprocess
import numpy as np
import nezha

comm = nezha.init()
data = np.ones(4, np.float32)
comm.all_reduce(data)
if comm.rank == 1:
    subprocess.Popen(["sh", "-c", f"sleep 3; kill -CONT {os.getpid()}"])
    os.kill(os.getpid(), signal.SIGSTOP)
comm.all_reduce(data)
assert data[0] == 4, data
"""


def _run_two(program: str, rails: str) -> None:
    run = "import sys; sys.argv[0] = 'nezha'; from nezha_tools.main import main; main()"
    outcome = subprocess.run(
        [sys.executable, "-c", run, "run", "-n", "2", "--", sys.executable, "-c", program],
        capture_output=True, text=True, timeout=120,
        env={**os.environ, "NEZHA_RAILS": rails, "NEZHA_PEER_DEADLINE_S": "20"})
    assert outcome.returncode == 0, outcome.stdout + outcome.stderr


@ofi
@pytest.mark.parametrize("rails", ["ofi:shm", "ofi:lo"])
def test_an_abort_in_mid_write_leaves_other_communicators_alone(rails: str) -> None:
    # In shared memory nothing tells a rank that its peer has closed a connection.
    _run_two(_ABORT_IN_THE_MIDDLE, rails)


@ofi
@pytest.mark.parametrize("rails", ["ofi:shm", "ofi:lo"])
def test_a_rank_that_stands_still_is_not_taken_for_dead(rails: str) -> None:
    _run_two(_STRUCK, rails)  # its port does not answer, and its host does
