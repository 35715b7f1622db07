"""Rails whose device has no address, or is not there, when the job begins: they join when it has one."""

from __future__ import annotations

from typing import Dict, List

import pytest
from conftest import eventually
from rails_job import Job

from nezha.lab import Lab

pytestmark = pytest.mark.usefixtures("namespaces")

MB = 1 << 20


def ip(lab: Lab, node: int, *words: str) -> None:
    """Runs `ip` on a node."""
    lab.exec(node, ["ip", *words], timeout=20, check=True)


def address_of(node: int) -> str:
    """What the lab gives eth1 of a node."""
    return f"10.2.0.{node + 1}/24"


def take_address(lab: Lab, node: int) -> None:
    """The device stays up."""
    ip(lab, node, "address", "flush", "dev", "eth1")
    ip(lab, node, "link", "set", "eth1", "addrgenmode", "none")
    ip(lab, node, "address", "flush", "dev", "eth1")


def connections(job: Job, device: str) -> List[int]:
    """Of each rank on that rail, as comm.describe("rails") says."""
    return [sum(peer["up"] for rail in rank["rails"] if rail["name"] == device
                for peer in rail["peers"]) for rank in job.describe()]


def sent_on(job: Job, device: str) -> List[int]:
    """Bytes that each rank's counters of that rail gained by some all_reduces."""
    operations = job.all_reduce(2 * MB, 4)
    return [sum(op[rank]["sent"][device] for op in operations) for rank in range(len(job.ranks))]


@pytest.mark.parametrize("without", [[0], [1], [0, 1, 2]])
@pytest.mark.parametrize("connect", ["eager", "demand"])
def test_a_device_without_an_address_joins_when_it_has_one(without: List[int], connect: str) -> None:
    with Lab(3, ["100mbit", "100mbit"]) as lab:
        for node in without:
            take_address(lab, node)
        with Job(lab, rails=["eth"] * 3, connect=connect, policy="round_robin") as job:
            for rank, start in enumerate(job.start):
                assert "error" not in start, start
                named: Dict[str, str] = {rail["name"]: rail["address"] for rail in start["rails"]}
                assert (named["eth1"] == "") == (rank in without), start
            before = sent_on(job, "eth1")
            assert all(before[rank] == 0 for rank in without), before
            for node in without:
                ip(lab, node, "address", "add", address_of(node), "dev", "eth1")
            assert eventually(lambda: all(count == 2 for count in connections(job, "eth1"))), \
                job.describe()
            after = sent_on(job, "eth1")
            assert all(sent > MB for sent in after), after
            for rank in job.describe():
                rail = next(each for each in rank["rails"] if each["name"] == "eth1")
                assert rail["address"].startswith("10.2.0.") and rail["state"] == "up", rail


def test_a_device_that_comes_later_joins() -> None:
    with Lab(2, ["100mbit", "100mbit"]) as lab:
        for node in range(2):
            ip(lab, node, "link", "set", "eth1", "down")
            ip(lab, node, "link", "set", "eth1", "name", "later0")
        with Job(lab, rails=["=eth0,=eth1"] * 2) as job:
            assert sent_on(job, "eth1") == [0, 0]
            for node in range(2):
                ip(lab, node, "link", "set", "later0", "name", "eth1")
                ip(lab, node, "link", "set", "eth1", "up")
            assert eventually(lambda: connections(job, "eth1") == [1, 1]), job.describe()
            assert all(sent > 0 for sent in sent_on(job, "eth1"))
