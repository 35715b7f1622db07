"""Faults of a whole host: it is suspended, a rank of it stands still for good, its address changes, and
it has no port left for a new connection."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import time
from typing import Any, Iterator, Sequence, Tuple

import pytest
from conftest import eventually

from nezha.lab import Lab

sys.path.insert(0, os.path.join(os.path.dirname(__file__), ".."))
from campaigns.cases import mixed
from campaigns.job import Job
from campaigns.nemesis import Nemesis
from campaigns.r08_sigstop import eventually_stopped
from campaigns.rails import RAILS, links

pytestmark = pytest.mark.usefixtures("namespaces")

NODES = 3
VICTIM = 1
ALL = NODES * (NODES - 1) * RAILS
# Only a broken library takes this long to answer; it is killed then, which fails the test.
_ANSWER_S = 90.0
_NO_PORTS = "32768-60999"  # what Linux chooses local ports from, unless told otherwise


@contextlib.contextmanager
def job_of_three(**settings: Any) -> Iterator[Tuple[Lab, Job]]:
    """A rank on each of three nodes with two rails."""
    with Lab(NODES, ["1gbit"] * RAILS) as lab:
        job = Job(lab, mixed(1 << 12), timeout_s=_ANSWER_S, **settings)
        try:
            job.calibrate(1)
            yield lab, job
        finally:
            job.kill()


@pytest.mark.parametrize("idle", [False, True], ids=["busy", "idle"])
def test_a_host_that_is_suspended_and_resumes_within_an_outage_costs_nobody_an_error(idle: bool) -> None:
    cases = [0] * 50
    with job_of_three() as (lab, job), Nemesis(lab) as nemesis:
        if not idle:
            job.start_ops(cases)
        for rail in range(RAILS):
            nemesis.black_hole(VICTIM, rail, "both")
        job.signal(VICTIM, signal.SIGSTOP)
        assert eventually_stopped(job.ranks[VICTIM].process.pid)
        time.sleep(4)
        assert sum(nemesis.dropped(VICTIM, rail) for rail in range(RAILS)) > 0, "the fault did not happen"
        for rail in range(RAILS):
            nemesis.restore(VICTIM, rail)
        job.signal(VICTIM, signal.SIGCONT)
        if idle:
            job.start_ops(cases)
        job.finish_ops(cases, within=_ANSWER_S)  # raises for an error, and for wrong bits
        job.close()


def test_a_rank_that_stands_still_beyond_its_deadline_is_lost_and_finds_that_out() -> None:
    cases = [0] * 20
    with job_of_three(outage_s=2, peer_deadline_s=3) as (_lab, job):
        job.signal(VICTIM, signal.SIGSTOP)
        assert eventually_stopped(job.ranks[VICTIM].process.pid)
        job.start_ops(cases)
        others = [rank for rank in range(NODES) if rank != VICTIM]
        for rank, answer in job.collect(others, within=_ANSWER_S).items():
            error = answer["error"]
            assert error["type"] == "PeerLost" and f"rank {VICTIM}" in error["message"], (rank, error)
        job.send({"do": "shrink", "case": 0}, others)
        for rank, answer in job.collect(others, within=_ANSWER_S).items():
            assert answer == {**answer, "world": 2, "rank": others.index(rank), "right": True}, answer
        job.signal(VICTIM, signal.SIGCONT)
        alone = job.collect([VICTIM], within=_ANSWER_S)[VICTIM]
        assert alone["error"]["type"] == "PeerLost", alone
        job.send({"do": "shrink", "case": 0}, [VICTIM])
        alone = job.collect([VICTIM], within=_ANSWER_S)[VICTIM]
        assert alone["error"]["type"] == "PeerLost", alone


def test_an_address_that_changes_costs_a_rail_until_it_is_there_again() -> None:
    with job_of_three() as (lab, job):
        mine = lab.state.nodes[VICTIM].ports[1].address
        other = mine.replace(mine.split("/")[0], mine.split("/")[0].rpartition(".")[0] + ".200")
        assert len(links(job.state())) == ALL

        def up(rail: int) -> int:
            job.ops([0])
            return sum(link[1] == rail for link in links(job.state()))

        lab.exec(VICTIM, ["ip", "address", "delete", mine, "dev", "eth1"], check=True)
        lab.exec(VICTIM, ["ip", "address", "add", other, "dev", "eth1"], check=True)
        between_the_others = 2
        assert eventually(lambda: up(1) == between_the_others), links(job.state())
        job.ops([0] * 20, within=_ANSWER_S)
        assert up(0) == ALL // RAILS
        lab.exec(VICTIM, ["ip", "address", "delete", other, "dev", "eth1"], check=True)
        lab.exec(VICTIM, ["ip", "address", "add", mine, "dev", "eth1"], check=True)
        assert eventually(lambda: up(1) == ALL // RAILS, _ANSWER_S), links(job.state())
        job.close()


def reserve_ports(lab: Lab, ports: str) -> None:
    """No connection of any node leaves from these."""
    for node in range(NODES):
        words = ["sysctl", "-qw", f"net.ipv4.ip_local_reserved_ports={ports}"]
        lab.exec(node, words, check=True)


def cut(nemesis: Nemesis, rails: Sequence[int]) -> None:
    """Ends the victim's connections on these rails."""
    for rail in rails:
        nemesis.plan_kill(VICTIM, rail, None, at=time.monotonic())
        nemesis.killed(VICTIM)


def test_a_host_without_a_port_for_a_new_connection_goes_on_over_the_other_rail() -> None:
    cases = [0] * 20
    with job_of_three(outage_s=2) as (lab, job), Nemesis(lab) as nemesis:
        reserve_ports(lab, _NO_PORTS)
        cut(nemesis, [1])
        job.start_ops(cases)
        job.finish_ops(cases, within=_ANSWER_S)
        time.sleep(5)
        at_rail = [link for link in links(job.state()) if link[1] == 1 and VICTIM in link[::2]]
        assert not at_rail, "the fault did not happen: a connection was made"
        reserve_ports(lab, "")
        assert eventually(lambda: len(links(job.state())) == ALL, _ANSWER_S)
        job.close()


def test_a_host_without_a_port_for_any_rail_blames_nobody() -> None:
    cases = [0] * 20
    with job_of_three(outage_s=2) as (lab, job), Nemesis(lab) as nemesis:
        reserve_ports(lab, _NO_PORTS)
        cut(nemesis, range(RAILS))
        job.start_ops(cases)
        time.sleep(5)
        reserve_ports(lab, "")
        late = job.finish_ops(cases, within=_ANSWER_S)
        assert late[0].end - late[0].first > 4, "the fault did not happen: an operation was over"
        assert eventually(lambda: len(links(job.state())) == ALL, _ANSWER_S)
        job.close()
