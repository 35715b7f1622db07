"""The hosts and rails of a simulated cluster, as arrays over (host, rail).

Units: bytes per second, seconds, bytes. Arrays over hosts have one row where all hosts are alike, so
that a cluster of 20,000 costs what differs in it. Errors: PlanError naming field, value and what is
allowed.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import combinations_with_replacement
from typing import Any, List, Optional, Sequence, Tuple

import numpy as np

from nezha_tools.cli.errors import PlanError
from nezha_tools.explain.offload import COPY_RATE
from nezha_tools.cli.validation import refused, whole
from .layout import Layout, even

HOSTS_MAX = 65535
RAILS_MAX = 16
INSIDE = (COPY_RATE, 5e-6)  # with shm=auto, as the library counts (docs/hierarchy.md)
FRAME_BYTES = 64  # of a message without data: its header (docs/wire_format.md)
Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Change:
    """From `at_s` on a rail has `factor` times its rate (0: it is dead), on one host or on all (None)."""

    at_s: float
    rail: int
    factor: float
    host: Optional[int] = None


@dataclass(frozen=True)
class Tree:
    """A fat tree: `pod` hosts share uplinks of pod / oversubscription ports on every rail."""

    pod: int
    oversubscription: float


@dataclass
class Cluster:
    """What the engine needs to know of hosts and rails.

    rate: shape (1 or hosts, rails); of shape (rails,): latency_s, burst_bytes (what a port lets through
    at once after a pause; 0: a plain wire) and segment_bytes (what it takes in whole before it hands it
    on; frames of a real network: 0, segments of a lab: 16 KiB). gap_s: processor time of a message at its
    receiver; adds: bytes per second that a host adds, and start_s: when it begins, of shape (1 or
    hosts,); rate_lost[i][j]: the part of its rate that rail i loses while rail j runs, too; split_cost_s:
    what using several rails costs an operation (None: not measured); detect_s: until a dead rail is
    noticed; layout: which ranks share a host (every rank has its own); inside: bytes per second and
    latency of a message between two ranks of one host, of each rank.
    """

    hosts: int
    rate: Array
    latency_s: Array
    burst_bytes: Array
    segment_bytes: Array
    gap_s: float
    adds: Array
    start_s: Array
    rate_lost: Array
    split_cost_s: Optional[float] = None
    detect_s: float = 0.2
    changes: List[Change] = field(default_factory=list)
    tree: Optional[Tree] = None
    layout: Layout = field(default=None)  # type: ignore[assignment]
    inside: Tuple[float, float] = INSIDE

    def __post_init__(self) -> None:
        if self.layout is None:
            self.layout = even(self.hosts)

    @property
    def ranks(self) -> int:
        """Of all hosts."""
        return self.layout.ranks

    @property
    def rails(self) -> int:
        """How many rails every host has."""
        return int(self.rate.shape[1])

    @property
    def alike(self) -> bool:
        """Whether all hosts are the same, all the time."""
        return (self.rate.shape[0] == self.start_s.size == self.adds.size == 1 and not self.changes
                and self.layout.is_even)

    def slowest(self, rails: Sequence[int]) -> List[Tuple[float, float]]:
        """(bytes per second, latency) of each of these rails, at the host where it is slowest."""
        return [(float(self.rate[:, rail].min()), float(self.latency_s[rail])) for rail in rails]


def uniform(hosts: int, rails: Sequence[Tuple[float, float]], adds: float = 4e9, gap_s: float = 0.0,
            burst_bytes: Optional[Sequence[float]] = None,
            segment_bytes: Optional[Sequence[float]] = None,
            rate_lost: Optional[Sequence[Sequence[float]]] = None) -> Cluster:
    """A cluster of alike hosts with rails of (bytes per second, latency in seconds)."""
    whole("nodes", hosts, 1, HOSTS_MAX)
    if not 1 <= len(rails) <= RAILS_MAX:
        raise refused("rails", len(rails), f"1 to {RAILS_MAX}")
    for rate, latency in rails:
        if not 0 < rate < 1e18:
            raise refused("rate", rate, "above 0 bytes per second")
        if not 0 <= latency < 1e6:
            raise refused("latency", latency, "0 seconds or more")
    if not adds > 0:
        raise refused("adds", adds, "above 0 bytes per second")
    count = len(rails)
    lost = np.zeros((count, count)) if rate_lost is None else np.asarray(rate_lost, float)
    if lost.shape != (count, count) or not ((lost >= 0) & (lost < 1)).all():
        raise PlanError(f"rate_lost must be {count} rows of {count} parts from 0 to below 1")
    return Cluster(hosts, np.array([[rate for rate, _ in rails]]), np.array([late for _, late in rails]),
                   np.zeros(count) if burst_bytes is None else np.asarray(burst_bytes, float),
                   np.zeros(count) if segment_bytes is None else np.asarray(segment_bytes, float),
                   gap_s, np.array([adds]), np.zeros(1), lost)


def with_rails(cluster: Cluster, rails: Sequence[int]) -> Cluster:
    """The same hosts with these of their rails only; of rails that do not change."""
    assert not cluster.changes
    some = list(rails)
    return replace(cluster, rate=cluster.rate[:, some], latency_s=cluster.latency_s[some],
                   burst_bytes=cluster.burst_bytes[some], segment_bytes=cluster.segment_bytes[some],
                   rate_lost=cluster.rate_lost[np.ix_(some, some)])


def slow_host(cluster: Cluster, host: int, factor: float, rail: Optional[int] = None) -> None:
    """Gives one host `factor` times the rate, on one rail or on all."""
    whole("host", host, 0, cluster.hosts - 1)
    if not 0 < factor <= 1000:
        raise refused("factor", factor, "above 0 and at most 1000")
    if cluster.rate.shape[0] == 1:
        cluster.rate = np.repeat(cluster.rate, cluster.hosts, axis=0)
    rails = slice(None) if rail is None else whole("rail", rail, 0, cluster.rails - 1)
    cluster.rate[host, rails] *= factor


def late_host(cluster: Cluster, host: int, seconds: float) -> None:
    """Lets one host begin later than the others."""
    whole("host", host, 0, cluster.hosts - 1)
    if not 0 <= seconds < 1e6:
        raise refused("late", seconds, "0 seconds or more")
    if cluster.start_s.size == 1:
        cluster.start_s = np.repeat(cluster.start_s, cluster.hosts)
    cluster.start_s[host] += seconds


def vary(cluster: Cluster, part: float, seed: int) -> None:
    """Draws every host's rates from [1 - part, 1] times the nominal ones."""
    if not 0 <= part < 1:
        raise refused("vary", part, "from 0 to below 1")
    whole("seed", seed, 0, 2**53)
    factors = 1 - part * np.random.default_rng(seed).random((cluster.hosts, cluster.rails))
    cluster.rate = cluster.rate * factors


def change(cluster: Cluster, each: Change) -> None:
    """Lets a rail change its rate while an operation runs."""
    whole("rail", each.rail, 0, cluster.rails - 1)
    if each.host is not None:
        whole("host", each.host, 0, cluster.hosts - 1)
    if not 0 <= each.factor <= 1 or not 0 <= each.at_s < 1e6:
        raise PlanError(f"change of rail {each.rail} to {each.factor:g} times its rate at {each.at_s:g} "
                        "s: the factor must be 0 (failed) to 1, the time 0 s or more")
    cluster.changes = sorted([*cluster.changes, each], key=lambda other: other.at_s)
    if each.factor == 0:
        _refuse_hosts_without_a_rail(cluster)


def _refuse_hosts_without_a_rail(cluster: Cluster) -> None:
    """Two hosts reach each other over a rail that fails on neither of them."""
    dead = [(each.rail, each.host) for each in cluster.changes if each.factor == 0]
    everywhere = {rail for rail, host in dead if host is None}
    at = {host: everywhere | {rail for rail, other in dead if other == host} for _, host in dead}
    for one, other in combinations_with_replacement(at, 2):
        if len(at[one] | at[other]) == cluster.rails:
            named = sorted({host for host in (one, other) if host is not None})
            where = f" on host {' or '.join(map(str, named))}" if named else ""
            raise PlanError(f"change: every rail fails{where}; any two hosts must keep one")
