"""Nezha between the two nodes of the guest: one job per line of JOBS, on whole and on failing rails.

A new kind of rail is a line of KINDS; what is done to the rails is the same for all kinds.
"""

from __future__ import annotations

import json
import os
import time
from typing import Callable, Dict, List, NamedTuple, Tuple

from .fabric_cases import check
from .network import Failure, Rail, rail
from .processes import Process

SECONDS = 240.0
# A busy host's guest needs more than the usual time to open connections.
PATIENCE = {"NEZHA_PROBE_TIMEOUT_S": "20", "NEZHA_CONNECT_TIMEOUT_S": "120"}
# Nothing but the two nodes reaches the network of the guest.
TRUSTING = {"NEZHA_AUTHENTICATION": "off"}
STORE = "tcp://127.0.0.1:29500"
ROUNDS = 3
DELAY = ("delay", "5ms")
LOSS = ("loss", "1%")
LOST = 3  # packets; a lossy step goes on until so many are
CARRIED = 1 << 17   # bytes that a rail has to carry before it is believed
BACK = 1 << 16      # and one that was cut, to count as returned
RDMA_PACKET = 4200  # bytes of the longest one


class Kind(NamedTuple):
    """How a rail of network.py becomes one of Nezha's, on a node."""

    entry: Callable[[Rail, int], str]  # of NEZHA_RAILS
    name: Callable[[Rail, int], str]   # in nezha_describe


def verbs_entry(over: Rail, node: int) -> str:
    """Of the three ways to name an RDMA rail, all are taken: device, Ethernet device, address."""
    if node == 0:
        return f"ofi:{over.verbs(node)}"
    return f"ofi:{over.device(node)}" if over.number == 1 else f"ofi:{over.address(node)}"


KINDS = {"tcp": Kind(lambda over, node: f"={over.device(node)}", Rail.device),
         "verbs": Kind(verbs_entry, Rail.verbs)}


class Job(NamedTuple):
    """At least two rails as (kind, rail of network.py), in order; the second is the one that suffers."""

    name: str
    rails: Tuple[Tuple[str, str], ...]
    elements: int = 128 << 10


JOBS = (
    Job("Nezha, 2 RDMA rails and TCP", (("verbs", "a"), ("verbs", "b"), ("tcp", "c"))),
    Job("Nezha, RDMA and a failing TCP rail", (("verbs", "a"), ("tcp", "c"))),
    Job("Nezha, 3 TCP rails", (("tcp", "a"), ("tcp", "b"), ("tcp", "c"))),
)


class Ranks:
    """The two ranks of a job; each takes its own host name, by which Nezha tells hosts apart."""

    def __init__(self, job: Job) -> None:
        self.ranks: List[Process] = []
        self.left_out: List[str] = []  # sentences about rails that are not used
        for node in (0, 1):
            entries = [KINDS[kind].entry(rail(name), node) for kind, name in job.rails]
            self.ranks.append(Process(
                ["unshare", "--uts", "sh", "-c", f'hostname node{node}; exec "$0" "$@"',
                 os.environ["RDMA_JOB"], str(node), "2", STORE, str(job.elements)],
                {"NEZHA_RAILS": ",".join(entries), **PATIENCE, **TRUSTING}))

    def round(self) -> Dict[str, int]:
        """Bytes sent on each rail of node 0, after its next round."""
        try:
            line = self.ranks[0].line(lambda text: text.startswith("@round "), SECONDS)
        except Failure as failure:
            raise Failure(f"{failure}\nrank 1: {self.ranks[1].complaint()}") from None
        described = json.loads(line.split(" ", 2)[2])
        self.left_out = described["left_out"]
        return {entry["name"]: entry["bytes_sent"] for entry in described["rails"]}

    def until(self, what: str, done: Callable[[Dict[str, int]], bool],
              seen: Callable[[], str] = lambda: "") -> None:
        """Rounds until `done` says so of the bytes sent. Raises Failure when it never does."""
        end = time.monotonic() + SECONDS
        while not done(sent := self.round()):
            check(time.monotonic() < end,
                  f"{SECONDS:.0f} s of rounds, and not yet: {what}; sent {sent} {seen()}; left out: "
                  f"{self.left_out}")

    def more(self) -> Dict[str, int]:
        """A few rounds."""
        for _ in range(ROUNDS):
            sent = self.round()
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


class Meter:
    """What a rail's own devices say it has carried since this was made."""

    def __init__(self, kind: str, over: Rail) -> None:
        self.over = over
        self.name = KINDS[kind].name(over, 0)
        self.is_rdma = kind == "verbs"
        self._bytes, self._packets = self._now()

    def _now(self) -> Tuple[int, int]:
        return self.over.sent_bytes(0), self.over.rxe(0, "sent_pkts") if self.is_rdma else 0

    def carried(self) -> int:
        """Bytes that node 0 has sent on it, headers included; by RDMA, where it is RDMA."""
        carried, packets = (now - then for now, then in zip(self._now(), (self._bytes, self._packets)))
        return min(carried, packets * RDMA_PACKET) if self.is_rdma else carried

    def agrees(self, sent: int) -> bool:
        """Whether that is what Nezha says, who also counts what was announced and then went elsewhere."""
        return sent >= CARRIED and self.carried() >= 0.8 * sent


def run_job(job: Job) -> str:
    """Clean, delayed, lossy, cut and back, in one job; its note says what each rail carried."""
    meters = [Meter(kind, rail(name)) for kind, name in job.rails]
    with Ranks(job) as ranks:
        ranks.until("every rail has carried data, and its device has counted it",
                    lambda sent: all(meter.agrees(sent[meter.name]) for meter in meters),
                    lambda: ", ".join(f"{meter.name} {meter.carried()}" for meter in meters))
        impaired(ranks, meters[1].over)
        cut_and_back(ranks, meters[1])
        sent = ranks.more()
        ranks.stop()
    return ", ".join(f"{name}: {amount / 1e6:.1f} MB" for name, amount in sent.items())


def impaired(ranks: Ranks, victim: Rail) -> None:
    """Rounds with a delayed rail, then with a lossy one that has truly lost something."""
    victim.impair(*DELAY)
    ranks.more()
    victim.impair(*LOSS)
    ranks.until(f"{LOST} packets lost on rail {victim.name}", lambda _: victim.dropped() >= LOST)
    victim.impair()


def cut_and_back(ranks: Ranks, victim: Meter) -> None:
    """Rounds go on without the rail, and use it again when it is back."""
    victim.over.cut()
    ranks.more()
    without, carried = ranks.more()[victim.name], victim.carried()
    victim.over.restore()
    ranks.until(f"{victim.name}, which is back, is used again",
                lambda sent: sent[victim.name] > without and victim.carried() >= carried + BACK)
