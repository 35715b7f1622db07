"""An operation message by message, in the order of time: for clusters where several messages want one
uplink or port while hosts go on at speeds of their own. Waves (engine.py), which are computed one after
the other, do not see that.

A port sends one message after the other. How quickly each goes is its fair part of the ports and uplinks
that it crosses (fair.py), and changes with every message that begins or ends. A processor adds what
arrives, in that order. Where there are many messages, what happens within 3 % of the time of the shortest
one is taken together: ends and begins keep their own times, and parts are computed once.
"""

from __future__ import annotations

from typing import Any, List, Optional, Sequence, Tuple

import numpy as np

from . import fair, messages
from .cluster import FRAME_BYTES, Cluster
from .engine import Outcome, Transfer
from .port_clocks import rates_together
from .waves import Form, Plan, Sizes

Array = np.ndarray[Any, Any]
HOSTS_MAX = 512
MESSAGES_MAX = 1 << 19
_WINDOW = 0.03  # of the time of the shortest message that is under way
_EXACT_MAX = 1 << 13  # so many messages are run without a window
_ROUNDING = 1e-9  # of the time of a message: at the same moment


def are_needed(cluster: Cluster, form: Form) -> bool:
    """Whether several messages may want one uplink or port while hosts go on at speeds of their own: in a
    chain every port has one partner."""
    if form.chain:
        return False
    is_unequal = len({*zip(cluster.rate[0], cluster.latency_s)}) > 1
    return (cluster.tree is not None or not cluster.alike
            or (is_unequal and form.collective in ("gather", "reduce")))


def fit(cluster: Cluster, form: Form, made: Plan) -> bool:
    """Whether this engine can run it: few enough messages of hosts with one rank each, wires without
    buckets that do not change."""
    return (cluster.layout.is_single and cluster.hosts <= HOSTS_MAX and not cluster.changes
            and not cluster.burst_bytes.any() and not cluster.segment_bytes.any()
            and messages.count(form, made.chunks, MESSAGES_MAX) <= MESSAGES_MAX)


class Flows:
    """One operation; record: keep every transfer."""

    def __init__(self, cluster: Cluster, form: Form, made: Plan, count: int, rails: Sequence[int],
                 record: bool = False) -> None:
        self._cluster, self._rails, self._record = cluster, list(rails), record
        self._waves = sum(1 for _ in form.waves())
        self._all = messages.unroll(form, Sizes(made, count, form.ranks, exact=True), made.chunks)
        hosts, ports = cluster.hosts, cluster.hosts * len(self._rails)
        together = rates_together(cluster, rails)
        self._rate = np.broadcast_to(together, (hosts, len(self._rails))).copy()
        self._latency = cluster.latency_s[self._rails]
        self._start = np.broadcast_to(cluster.start_s, (hosts,))
        self._adds = np.broadcast_to(cluster.adds, (hosts,))
        self._links, self._capacity = self._network()
        total = self._all.src.size
        self._missing = np.bincount(self._all.needed_in, minlength=self._all.host.size)
        self._is_open = np.zeros(self._all.host.size, bool)
        self._sends = np.argsort(self._all.sent_in, kind="stable")  # by round
        self._first = np.searchsorted(self._all.sent_in[self._sends], np.arange(self._all.host.size + 1))
        self._port = np.zeros(total, int)   # of each message, once it is given out
        self._next = np.full(total, -1)     # the message behind it at its port
        self._begin, self._end, self._landed = np.zeros(total), np.zeros(total), np.zeros(total)
        self._head, self._tail = np.full(ports, -1), np.full(ports, -1)
        self._current = np.full(ports, -1)  # the message that a port sends
        self._left, self._speed = np.zeros(ports), np.zeros(ports)
        self._began = np.zeros(ports)       # when
        self._waiting = np.zeros(ports)     # bytes behind the current one
        self._cpu, self._done = self._start.copy(), self._start.copy()
        self._adding, self._handling = np.zeros(hosts), np.zeros(hosts)
        self._window = _WINDOW if total > _EXACT_MAX else _ROUNDING
        begins = np.flatnonzero(np.insert(~self._all.is_followed[:-1], 0, True))
        self._opens = _Pending(begins, self._start[self._all.host[begins]])  # rounds
        self._is_awaited = bool(self._all.is_followed.any())  # whether anybody sends what has landed
        self._arrives, self._lands = _Pending(), _Pending()                  # messages

    def run(self) -> Outcome:
        """Runs all messages."""
        now = 0.0
        while True:
            active = np.flatnonzero(self._current >= 0)
            ends = now + self._left[active] / self._speed[active]
            pending = (self._opens, self._lands, self._arrives)
            waited_for = pending if self._is_awaited or not active.size else pending[:2]
            first = min(float(ends.min(initial=np.inf)), *(each.first for each in waited_for))
            if np.isinf(first):
                return self._outcome()
            shortest = float((ends - self._began[active]).min()) if active.size else 0.0
            until = first + self._window * shortest
            self._left[active] -= self._speed[active] * (until - now)
            ended = ends <= until
            changed = bool(ended.any())
            self._finish(active[ended], ends[ended], until)
            now = until
            while min(each.first for each in pending) <= until:
                self._arrive(*self._arrives.until(until))
                self._land(*self._lands.until(until))
                changed |= self._open(*self._opens.until(until), until)
            if changed:
                self._share()

    def _network(self) -> Tuple[Array, Array]:
        """The links that a port crosses on the side of its host, shape (2, 2 directions, ports), and what
        every link carries."""
        hosts, rails = self._rate.shape
        port, ports = np.arange(hosts * rails), hosts * rails
        out, into = port, port + ports
        tree = self._cluster.tree
        capacity = [self._rate.ravel(), self._rate.ravel()]
        if tree is None:
            return np.array([[out, into], [out, into]]), np.concatenate(capacity)
        pods = -(-hosts // tree.pod)
        uplink = 2 * ports + port // rails // tree.pod * rails + port % rails
        capacity += 2 * [np.tile(self._rate.max(axis=0) * tree.pod / tree.oversubscription, pods)]
        return (np.array([[out, into], [uplink, uplink + pods * rails]]), np.concatenate(capacity))

    def _bytes(self, some: Array) -> Array:
        return self._all.size[some] + FRAME_BYTES

    # ---- ports ------------------------------------------------------------------------------------

    def _share(self) -> None:
        """What every message that is under way gets of ports and uplinks."""
        out = np.flatnonzero(self._current >= 0)
        if not out.size:
            return
        rails = len(self._rails)
        into = self._all.dst[self._current[out]] * rails + out % rails
        links = np.array([self._links[0, 0, out], self._links[0, 1, into], self._links[1, 0, out],
                          self._links[1, 1, into]])
        tree = self._cluster.tree
        if tree is not None:
            inside = out // rails // tree.pod == into // rails // tree.pod
            links[2:, inside] = links[:2, inside]
        self._speed[out] = fair.rates(links, self._capacity)

    def _finish(self, ports: Array, times: Array, now: float) -> None:
        """Messages have left at these times; those behind them have begun then."""
        ended = self._current[ports]
        self._end[ended] = times
        self._left[ports] = 0
        self._current[ports] = -1
        self._arrives.add(ended, times + self._latency[ports % len(self._rails)])
        self._begin_at(ports, times, now)

    def _begin_at(self, ports: Array, times: Array, now: float) -> None:
        """Lets idle ports send the first message that waits there, from these times on."""
        waits = self._head[ports] >= 0
        ports, times = ports[waits], times[waits]
        first = self._head[ports]
        self._head[ports] = self._next[first]
        self._tail[ports] = np.where(self._next[first] < 0, -1, self._tail[ports])
        self._current[ports] = first
        self._begin[first] = self._began[ports] = times
        size = self._bytes(first)
        self._waiting[ports] -= size
        self._left[ports] = size - np.minimum(self._speed[ports] * (now - times), size / 2)

    def _give_out(self, some: Array, times: Array, now: float) -> None:
        """Every message goes to the rail on which it would be through first, by what its host knows."""
        rails = len(self._rails)
        for number in _apart(self._all.src[some]):
            given = some[number]
            src, dst, size = self._all.src[given], self._all.dst[given], self._bytes(given)
            ports = src[:, None] * rails + np.arange(rails)
            before = (self._waiting[ports] + self._left[ports]) / self._rate[src]
            through = before + size[:, None] / np.minimum(self._rate[src], self._rate[dst])
            port = src * rails + (through + self._latency).argmin(axis=1)
            last = self._tail[port]
            self._next[last[last >= 0]] = given[last >= 0]
            self._head[port[last < 0]] = given[last < 0]
            self._tail[port] = given
            self._port[given] = port
            self._waiting[port] += size
        ports, place = np.unique(self._port[some], return_index=True)
        idle = self._current[ports] < 0
        self._speed[ports[idle]] = self._rate.ravel()[ports[idle]]
        self._begin_at(ports[idle], times[place[idle]], now)

    # ---- hosts ------------------------------------------------------------------------------------

    def _open(self, rounds: Array, times: Array, now: float) -> bool:
        """Rounds begin, and those behind them for which nothing is missing. Whether any has messages."""
        opened, at = [], []
        while rounds.size:
            opened.append(rounds)
            at.append(times)
            self._is_open[rounds] = True
            goes_on = self._all.is_followed[rounds] & (self._missing[rounds] == 0)
            rounds, times = rounds[goes_on] + 1, times[goes_on]
        if not opened:
            return False
        rounds = np.concatenate(opened)
        begin, count = self._first[rounds], np.diff(self._first)[rounds]
        within = np.arange(count.sum()) - np.repeat(np.cumsum(count) - count, count)
        some, times = self._sends[np.repeat(begin, count) + within], np.repeat(np.concatenate(at), count)
        order = np.lexsort((some, times))
        if some.size:
            self._give_out(some[order], times[order], now)
        return bool(some.size)

    def _arrive(self, some: Array, times: Array) -> None:
        """A processor takes what arrives, one after the other."""
        for number in _apart(self._all.dst[some]):
            came = some[number]
            dst = self._all.dst[came]
            adding = np.where(self._all.reduces[came], self._all.size[came] / self._adds[dst], 0)
            self._cpu[dst] = np.maximum(times[number], self._cpu[dst]) + self._cluster.gap_s + adding
            self._landed[came] = self._cpu[dst]
            self._adding[dst] += adding
            self._handling[dst] += self._cluster.gap_s
        awaited = some[self._all.is_followed[self._all.needed_in[some]]]
        self._lands.add(awaited, self._landed[awaited])

    def _land(self, some: Array, times: Array) -> None:
        rounds = self._all.needed_in[some]
        np.subtract.at(self._missing, rounds, 1)
        rounds, last = np.unique(rounds[::-1], return_index=True)
        complete = self._is_open[rounds] & (self._missing[rounds] == 0)
        self._opens.add(rounds[complete] + 1, times[::-1][last[complete]])

    def _outcome(self) -> Outcome:
        every, rails = self._all, len(self._rails)
        hosts = self._cluster.hosts
        told = self._end + 2 * self._latency[self._port % rails]
        np.maximum.at(self._done, every.dst, self._landed)
        np.maximum.at(self._done, every.src, told)
        busy = np.bincount(self._port, self._end - self._begin, hosts * rails).reshape(hosts, rails)
        sent = np.bincount(self._port, every.size, hosts * rails).reshape(hosts, rails)
        total = float(self._done.max() - self._start.min())
        transfers = [Transfer(int(every.src[i]), int(every.dst[i]), self._rails[self._port[i] % rails],
                              float(every.size[i]), float(self._begin[i]), float(self._end[i]),
                              float(self._landed[i]), int(every.stage[i]), int(every.chunk[i]))
                     for i in range(every.src.size if self._record else 0)]
        return Outcome(total, self._done, self._rails, busy, sent, np.zeros_like(busy), np.zeros(hosts),
                       self._adding, self._handling, self._waves, self._waves, transfers)


class _Pending:
    """What happens at times to come."""

    def __init__(self, what: Optional[Array] = None, times: Optional[Array] = None) -> None:
        self._what = np.zeros(0, int) if what is None else what
        self._times = np.zeros(0) if times is None else times
        self.first = float(self._times.min(initial=np.inf))

    def add(self, what: Array, times: Array) -> None:
        """Takes more."""
        if what.size:
            self._what, self._times = np.append(self._what, what), np.append(self._times, times)
            self.first = min(self.first, float(times.min()))

    def until(self, time: float) -> Tuple[Array, Array]:
        """Gives out what happens until then, in the order of the times."""
        if self.first > time:
            return self._what[:0], self._times[:0]
        due = self._times <= time
        what, times = self._what[due], self._times[due]
        self._what, self._times = self._what[~due], self._times[~due]
        self.first = float(self._times.min(initial=np.inf))
        order = np.lexsort((what, times))
        return what[order], times[order]


def _apart(keys: Array) -> List[Array]:
    """Positions, in groups in which no key occurs twice; the first of each key before the second."""
    order = np.argsort(keys, kind="stable")
    ordered = keys[order]
    new = np.append(True, ordered[1:] != ordered[:-1])
    first = np.maximum.accumulate(np.where(new, np.arange(keys.size), 0))
    place = np.arange(keys.size) - first
    by_place = np.argsort(place, kind="stable")
    cuts = np.flatnonzero(np.diff(place[by_place])) + 1
    return [order[part] for part in np.split(by_place, cuts)] if keys.size else []
