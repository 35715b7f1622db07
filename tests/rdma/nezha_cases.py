"""Nezha between the two nodes of the guest. JOBS is the table: a new kind of rail is a line of KINDS."""

from __future__ import annotations

import json
import sys
import time
from typing import Dict, List, NamedTuple, Tuple

from .fabric_cases import check
from .network import rail
from .processes import Process

SECONDS = 90.0
STORE = "tcp://127.0.0.1:29500"
OPERATIONS = 8

# What selects a rail of a kind for a node's NEZHA_RAILS, given its device.
KINDS = {"tcp": "={}".format}


class Job(NamedTuple):
    """Rails as (kind, rail of network.py), what is done to them, and the size of the all_reduce."""

    name: str
    rails: Tuple[Tuple[str, str], ...]
    netem: Tuple[str, ...] = ()
    cut: str = ""  # this rail goes away in mid-job, and comes back
    elements: int = 256 << 10


JOBS = (
    Job("all_reduce, TCP", (("tcp", "c"),)),
    Job("all_reduce, TCP, 5 ms", (("tcp", "c"),), netem=("delay", "5ms")),
    Job("all_reduce, TCP, 1 % loss", (("tcp", "c"),), netem=("loss", "1%")),
    Job("all_reduce, 3 TCP rails, one cut", (("tcp", "a"), ("tcp", "b"), ("tcp", "c")), cut="b"),
)


class Ranks:
    """The two ranks of a job; each takes its own host name, by which Nezha tells hosts apart."""

    def __init__(self, job: Job) -> None:
        self.ranks: List[Process] = []
        for node in (0, 1):
            devices = [KINDS[kind](rail(name).device(node)) for kind, name in job.rails]
            environment = {"RANK": str(node), "WORLD_SIZE": "2", "NEZHA_STORE": STORE,
                           "NEZHA_RAILS": ",".join(devices)}
            self.ranks.append(Process(
                ["unshare", "--uts", "sh", "-c", f'hostname node{node}; exec "$0" "$@"',
                 sys.executable, "-m", "rdma.job", str(job.elements)], environment))

    def operation(self) -> Dict[str, int]:
        """Bytes sent on each device of node 0, after its next operation."""
        line = self.ranks[0].line(lambda text: text.startswith("@operation "), SECONDS)
        return json.loads(line.partition(" ")[2])["rails"]

    def operations(self, count: int) -> Dict[str, int]:
        """The same after `count` more."""
        for _ in range(count):
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
    """Runs a job; its note says what each rail carried."""
    used = [rail(name) for _, name in job.rails]
    for over in used:
        over.impair(*job.netem)
    carried = {over.name: over.carried() for over in used}
    with Ranks(job) as ranks:
        sent = ranks.operations(OPERATIONS)
        if job.cut:
            sent = cut_and_back(ranks, job)
        ranks.stop()
    for over in used:
        bytes_sent = sent.get(over.device(0), 0)
        check(bytes_sent > 0, f"node 0 sent nothing over {over.device(0)}: {sent}")
        check(over.carried() > carried[over.name], f"no packet of Nezha's crossed rail {over.name}")
        if "loss" in job.netem:
            check(over.dropped() > 0, f"netem has dropped nothing on rail {over.name}")
    return ", ".join(f"{over.name}: {sent[over.device(0)] / 1e6:.1f} MB" for over in used)


def cut_and_back(ranks: Ranks, job: Job) -> Dict[str, int]:
    """Operations go on without the rail, and use it again when it is back."""
    over = rail(job.cut)
    over.cut()
    without = ranks.operations(OPERATIONS)
    again = ranks.operations(OPERATIONS)
    device = over.device(0)
    check(again[device] - without[device] < sum(again.values()) - sum(without.values()),
          f"after the cut all bytes go over {device}, which is down")
    over.restore()
    end = time.monotonic() + SECONDS
    while ranks.operation()[device] <= again[device]:
        check(time.monotonic() < end, f"{device} is up again for {SECONDS:.0f} s, and still not used")
    return ranks.operation()
