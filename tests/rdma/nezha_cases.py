"""Nezha between the two nodes of the guest: one job per line of JOBS, on whole and on failing rails.

A new kind of rail is a line of KINDS; what is done to the rails is the same for all kinds.
"""

from __future__ import annotations

import json
import sys
import time
from typing import Callable, Dict, List, NamedTuple, Tuple

from .fabric_cases import check
from .network import Rail, rail
from .processes import Process

SECONDS = 240.0
STORE = "tcp://127.0.0.1:29500"
OPERATIONS = 4
DELAY = ("delay", "5ms")
LOSS = ("loss", "1%")
LOST = 3  # packets; a lossy step goes on until so many are

# The device that is a rail of this kind on a node: NEZHA_RAILS selects it, and the rail bears its name.
KINDS: Dict[str, Callable[[Rail, int], str]] = {"tcp": Rail.device}


class Job(NamedTuple):
    """At least two rails as (kind, rail of network.py), in order; the second is the one that suffers."""

    name: str
    rails: Tuple[Tuple[str, str], ...]
    elements: int = 128 << 10


JOBS = (
    Job("all_reduce, 3 TCP rails", (("tcp", "a"), ("tcp", "b"), ("tcp", "c"))),
)


def devices(job: Job, node: int) -> List[str]:
    """The job's rails on a node, in order."""
    return [KINDS[kind](rail(name), node) for kind, name in job.rails]


class Ranks:
    """The two ranks of a job; each takes its own host name, by which Nezha tells hosts apart."""

    def __init__(self, job: Job) -> None:
        self.ranks: List[Process] = []
        for node in (0, 1):
            environment = {"RANK": str(node), "WORLD_SIZE": "2", "NEZHA_STORE": STORE,
                           "NEZHA_RAILS": "=" + ",".join(devices(job, node))}
            self.ranks.append(Process(
                ["unshare", "--uts", "sh", "-c", f'hostname node{node}; exec "$0" "$@"',
                 sys.executable, "-m", "rdma.job", str(job.elements)], environment))

    def operation(self) -> Dict[str, int]:
        """Bytes sent on each device of node 0, after its next operation."""
        line = self.ranks[0].line(lambda text: text.startswith("@operation "), SECONDS)
        return json.loads(line.partition(" ")[2])["rails"]

    def until(self, what: str, done: Callable[[Dict[str, int]], bool]) -> Dict[str, int]:
        """Operations until `done` says so of the bytes sent. Raises Failure when it never does."""
        end = time.monotonic() + SECONDS
        while not done(sent := self.operation()):
            check(time.monotonic() < end, f"{SECONDS:.0f} s of operations, and not yet: {what}; {sent}")
        return sent

    def more(self) -> Dict[str, int]:
        """A few operations."""
        for _ in range(OPERATIONS):
            sent = self.operation()
        return sent

    def stop(self) -> None:
        """Ends the job. Raises Failure unless both ranks end well."""
        self.ranks[1].say("stop")
        for rank in self.ranks:
            rank.finish(SECONDS)

    def __enter__(self) -> "Ranks":
        return self

    def __exit__(self, *_: object) -> None:
        for rank in self.ranks:
            rank.__exit__()


def run_job(job: Job) -> str:
    """Clean, delayed, lossy, cut and back, in one job; its note says what each rail carried."""
    used, names = [rail(name) for _, name in job.rails], devices(job, 0)
    carried = {over.name: over.carried() for over in used}
    with Ranks(job) as ranks:
        ranks.until("every rail has sent", lambda sent: all(sent[name] > 0 for name in names))
        impaired(ranks, used[1])
        cut_and_back(ranks, used[1], names[1])
        sent = ranks.more()
        ranks.stop()
    for over in used:
        check(over.carried() > carried[over.name], f"no packet of Nezha's crossed rail {over.name}")
    return ", ".join(f"{name}: {sent[name] / 1e6:.1f} MB" for name in names)


def impaired(ranks: Ranks, victim: Rail) -> None:
    """Operations with a delayed rail, then with a lossy one that has truly lost something."""
    victim.impair(*DELAY)
    ranks.more()
    victim.impair(*LOSS)
    ranks.until(f"{LOST} packets lost on rail {victim.name}", lambda _: victim.dropped() >= LOST)
    victim.impair()


def cut_and_back(ranks: Ranks, victim: Rail, device: str) -> None:
    """Operations go on without the rail, and use it again when it is back."""
    victim.cut()
    ranks.more()
    without = ranks.more()[device]
    victim.restore()
    ranks.until(f"{device}, which is back, is used again", lambda sent: sent[device] > without)
