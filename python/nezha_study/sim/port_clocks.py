"""When messages cross: the ports of all hosts as clocks over (host, rail); which rail a message takes.

A port sends and receives at its rail's rate, both at once. A message takes the rail on which it would be
through first, as the shipped binder does (rails/policies/binder.h; a test asks it), or the one that
binders say. Units: seconds, bytes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, List, Optional, Sequence, Tuple

import numpy as np

from .binders import Binders
from .cluster import FRAME_BYTES, Cluster

Array = np.ndarray[Any, Any]
_LOST_MAX = 0.95  # a rail keeps a twentieth of its rate, however many disturb it


def rates_together(cluster: Cluster, rails: Sequence[int]) -> Array:
    """What ports do while all of these rails run, shape (1 or hosts, rails)."""
    lost = cluster.rate_lost[np.ix_(rails, rails)].sum(axis=1)
    return np.asarray(cluster.rate[:, list(rails)] * (1 - np.minimum(lost, _LOST_MAX)))


@dataclass(frozen=True)
class Crossing:
    """One entry for each message: its rail (among those in use), when its bytes began and ended to leave,
    when they had all arrived, and when the sender was told so."""

    rail: Array
    begin: Array
    end: Array
    arrived: Array
    told: Array


class Ports:
    """The clocks of the rails in use: what each port has still to send (`tx`) and to take (`rx`). timed:
    for how long a host's rails were needed, by their acknowledgements (OpSample in rails/policy.h)."""

    def __init__(self, cluster: Cluster, rails: Sequence[int], binders: Optional[Binders] = None) -> None:
        self._cluster, self._binders = cluster, binders
        self._rails = list(rails)
        self._rate = rates_together(cluster, rails)
        self._latency = cluster.latency_s[self._rails]
        self._segment = cluster.segment_bytes[self._rails]
        self.pause = cluster.burst_bytes[self._rails] / self._rate  # a bucket: how far a port may be late
        start = np.broadcast_to(cluster.start_s, (cluster.hosts,))[:, None]
        self.tx = np.broadcast_to(start, (cluster.hosts, len(self._rails))) + np.zeros(len(self._rails))
        self.tx -= self.pause
        self.rx = self.tx.copy()
        self.busy = np.zeros_like(self.tx)
        self.sent = np.zeros_like(self.tx)
        self.timed = np.zeros_like(self.tx)
        self._acknowledged = self.tx.copy()

    def cross(self, src: Array, dst: Array, size: Array, ready: Array) -> Crossing:
        """Sends messages of `size` bytes, which have their bytes at `ready`; no host twice on a side."""
        cost = (size + FRAME_BYTES)[:, None] / self._pair_rate(src, dst)
        begin = np.maximum(ready[:, None] - self._of(self.pause, src), self.tx[src])
        if self._cluster.changes:
            rail, begin, end = self._choose_changing(src, dst, cost, begin)
        else:
            end = begin + cost
            rail = (np.maximum(end, ready[:, None]) + self._latency).argmin(axis=1)
            if self._binders is not None:
                rail = self._binders.pick(src, dst, size)
        row = np.arange(src.size)
        if self._cluster.tree is not None:
            cost = cost * self._uplinks(src, dst, rail)[:, None]
            end = self._drained(src, dst, cost, begin) if self._cluster.changes else begin + cost
        first, last = begin[row, rail], end[row, rail]
        took = last - first
        self.tx[src, rail] = last
        self.busy[src, rail] += took
        self.sent[src, rail] += size
        late = self._latency[rail]
        kept = took * np.minimum(1.0, self._segment[rail] / (size + FRAME_BYTES))
        taken = np.maximum(self.rx[dst, rail], first + late + kept) + took
        self.rx[dst, rail] = taken
        left = np.maximum(first, ready)
        gone = np.maximum(last, left)
        arrived = np.maximum(gone + late, taken)
        told = arrived + late
        if self._binders is not None:
            self.timed[src, rail] += told - np.maximum(ready, self._acknowledged[src, rail])
            self._acknowledged[src, rail] = told
        return Crossing(rail, left, gone, arrived, told)

    def _of(self, table: Array, hosts: Array) -> Array:
        return table if table.shape[0] == 1 else table[hosts]

    def _pair_rate(self, src: Array, dst: Array) -> Array:
        if self._rate.shape[0] == 1:
            return self._rate
        return np.asarray(np.minimum(self._rate[src], self._rate[dst]))

    def _uplinks(self, src: Array, dst: Array, rail: Array) -> Array:
        """How many times longer messages take that share uplinks with others of their wave and rail."""
        tree = self._cluster.tree
        assert tree is not None
        crosses = src // tree.pod != dst // tree.pod
        count = len(self._rails)
        from_pod, to_pod = src // tree.pod * count + rail, dst // tree.pod * count + rail
        pods = -(-self._cluster.hosts // tree.pod) * count
        ports = tree.pod / tree.oversubscription
        out = np.bincount(from_pod[crosses], minlength=pods) / ports
        into = np.bincount(to_pod[crosses], minlength=pods) / ports
        return np.where(crosses, np.maximum(1.0, np.maximum(out[from_pod], into[to_pod])), 1.0)

    def _choose_changing(self, src: Array, dst: Array, cost: Array,
                         begin: Array) -> Tuple[Array, Array, Array]:
        """The same while rails change. A sender does not know that a rail is dead until detect_s later:
        what it has given to it goes again then."""
        row = np.arange(src.size)
        real = self._drained(src, dst, cost, begin)
        dead_s = self._dead_from(src, dst)
        knows = begin >= dead_s + self._cluster.detect_s
        hoped = np.where(np.isinf(real) & ~knows, begin + cost, real)
        rail = (hoped + self._latency).argmin(axis=1)
        lost = np.isinf(real[row, rail])
        if lost.any():
            noticed = np.where(lost, dead_s[row, rail] + self._cluster.detect_s, 0)
            again = np.maximum(begin, noticed[:, None])
            again_end = self._drained(src, dst, cost, again)
            begin = np.where(lost[:, None], again, begin)
            real = np.where(lost[:, None], again_end, real)
            rail = np.where(lost, (again_end + self._latency).argmin(axis=1), rail)
        return rail, begin, real

    def _touched(self, src: Array, dst: Array) -> List[Tuple[float, float, Array]]:
        """(time, factor, mask over messages and rails) of every change."""
        found = []
        for each in self._cluster.changes:
            everywhere = each.host is None
            hosts = np.ones(src.size, bool) if everywhere else (src == each.host) | (dst == each.host)
            found.append((each.at_s, each.factor,
                          hosts[:, None] & (np.array(self._rails) == each.rail)[None, :]))
        return found

    def _dead_from(self, src: Array, dst: Array) -> Array:
        dead = np.full((src.size, len(self._rails)), np.inf)
        for at_s, factor, mask in self._touched(src, dst):
            if factor == 0:
                dead = np.where(mask, np.minimum(dead, at_s), dead)
        return dead

    def _drained(self, src: Array, dst: Array, cost: Array, begin: Array) -> Array:
        """When `cost` seconds of work at full rate are done; infinity on a rail that dies before."""
        left, now = cost.copy(), begin.copy()
        factor = np.ones_like(cost)
        for at_s, following, mask in self._touched(src, dst):
            done = np.maximum(at_s - now, 0) * factor
            goes_on = mask & (left > done)
            left = np.where(goes_on, left - done, left)
            now = np.where(goes_on, np.maximum(now, at_s), now)
            factor = np.where(goes_on, following, factor)
        with np.errstate(divide="ignore"):
            return now + left / factor
