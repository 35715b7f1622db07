"""The engine: runs a form on a cluster, wave by wave, all hosts at once.

Of every chunk a host's state is the time from which it may send on. A wave reads the senders' states,
crosses the ports (ports.py), adds at the receivers one message after the other, and writes their states.
Everything is maxima and sums of times, so where hosts, sizes and waves are alike, a state that has moved
by the same time everywhere moves on like that: such waves are multiplied and not run (max-plus
homogeneity; test_sim_engine.py compares with running all).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, List, Optional, Sequence, Tuple

import numpy as np

from .binders import Binders
from .cluster import Cluster
from .port_clocks import Crossing, Ports
from .waves import Alike, Form, Plan, Sizes, Wave

Array = np.ndarray[Any, Any]
_EQUAL = 1e-9  # relative: the same move everywhere
_ROUNDING = 1e-14  # of sums of times
_HOPS_RUN = 64  # of a chain of alike hosts, before the rest is multiplied


@dataclass(frozen=True)
class Transfer:
    """One message: hosts, rail, bytes, and its times in seconds."""

    src: int
    dst: int
    rail: int
    size: float
    begin_s: float
    end_s: float
    landed_s: float
    stage: int
    chunk: int


@dataclass
class Outcome:
    """What an operation took. done_s: when each host was done; busy_s, sent: shape (hosts, rails in
    use), of what it sent; adding_s, handling_s: processor time by host; waves: how many there are, and
    how many of them were run."""

    total_s: float
    done_s: Array
    rails: List[int]
    busy_s: Array
    sent: Array
    timed_s: Array
    adding_s: Array
    handling_s: Array
    waves: int
    waves_run: int
    transfers: List[Transfer] = field(default_factory=list)


class Engine:
    """One operation. multiply: let alike waves be multiplied; record: keep every transfer; binders: who
    picks the rail of every transfer (None: each goes where it is through first). What binders remember
    makes waves differ, so with them all are run."""

    def __init__(self, cluster: Cluster, form: Form, made: Plan, count: int, rails: Sequence[int],
                 multiply: bool = True, record: bool = False,
                 binders: Optional[Binders] = None) -> None:
        self._cluster, self._form, self._plan = cluster, form, made
        self._multiply = multiply and cluster.alike and not record and binders is None
        self._sizes = Sizes(made, count, form.ranks, exact=not self._multiply)
        self._rails = list(rails)
        self._ports = Ports(cluster, rails, binders)
        self._start = np.broadcast_to(cluster.start_s, (cluster.hosts,))
        self._adds = np.broadcast_to(cluster.adds, (cluster.hosts,))
        lanes = self._start if form.lanes == cluster.hosts else np.repeat(
            self._start, form.lanes // cluster.hosts)
        rows = 1 if form.chain else made.chunks
        self._state = np.tile(lanes, (rows, 1))
        self._round = self._state.copy()  # from when the round of a lane's last send was open
        self._cpu = self._start.copy()
        self._done = self._start.copy()
        self._adding = np.zeros(cluster.hosts)
        self._handling = np.zeros(cluster.hosts)
        self._transfers: List[Transfer] = []
        self._record = record
        self._waves = self._waves_run = 0

    def run(self) -> Outcome:
        """Runs all waves."""
        if self._form.chain:
            self._run_chain()
        elif self._form.at_once:
            self._run_at_once()
        else:
            for part in self._form.parts():
                if isinstance(part, Wave):
                    self._wave(part)
                    self._waves += 1
                else:
                    self._alike(part)
        begun = float(self._start.min())
        total = float(self._done.max()) - begun
        return Outcome(total, self._done, self._rails, self._ports.busy, self._ports.sent,
                       self._ports.timed, self._adding, self._handling, self._waves, self._waves_run,
                       self._transfers)

    def _run_at_once(self) -> None:
        """A host sends a chunk on to everybody before it sends the next one."""
        waves = list(self._form.waves())
        self._waves = self._waves_run = len(waves)
        for chunk in range(self._plan.chunks):
            for wave in waves:
                self._step(wave, chunk, np.asarray(chunk))

    def _wave(self, wave: Wave) -> None:
        self._waves_run += 1
        if wave.chunk is not None:
            self._step(wave, 0, wave.chunk)
            return
        for chunk in range(self._plan.chunks):
            self._step(wave, chunk, np.asarray(chunk))

    def _step(self, wave: Wave, row: int, chunk: Array) -> None:
        size = self._sizes.of(wave, chunk)
        state = self._state[row]
        src_lane, dst_lane = (wave.src, wave.dst) if wave.lanes is None else wave.lanes
        if wave.fresh:
            ready = self._start[wave.src]
        else:
            ready = state[src_lane]
            if wave.again is not False:
                ready = np.where(wave.again, self._round[row][src_lane], ready)
            self._round[row][src_lane] = ready
        crossed = self._ports.cross(wave.src, wave.dst, size, ready)
        adding = np.where(wave.reduces, size / self._adds[wave.dst], 0)
        landed = np.maximum(crossed.arrived, self._cpu[wave.dst]) + self._cluster.gap_s + adding
        self._cpu[wave.dst] = landed
        self._adding[wave.dst] += adding
        self._handling[wave.dst] += self._cluster.gap_s
        state[dst_lane] = landed if wave.token else np.maximum(state[dst_lane], landed)
        self._done[wave.dst] = np.maximum(self._done[wave.dst], landed)
        told = crossed.arrived + self._cluster.latency_s[self._rails][crossed.rail]
        self._done[wave.src] = np.maximum(self._done[wave.src], told)
        if self._record:
            self._note(wave, size, crossed, landed, chunk)

    def _note(self, wave: Wave, size: Array, crossed: Crossing, landed: Array, chunk: Array) -> None:
        stages = np.broadcast_to(wave.stage, wave.src.shape)
        chunks = np.broadcast_to(chunk, wave.src.shape)
        for i in range(wave.src.size):
            self._transfers.append(Transfer(
                int(wave.src[i]), int(wave.dst[i]), self._rails[int(crossed.rail[i])], float(size[i]),
                float(crossed.begin[i]), float(crossed.end[i]), float(landed[i]), int(stages[i]),
                int(chunks[i])))

    # ---- what repeats ---------------------------------------------------------------------------

    def _clocks(self) -> List[Array]:
        return [self._state, self._round, self._ports.tx, self._ports.rx, self._cpu, self._done]

    def _seen(self, fresh: bool) -> List[Array]:
        """Copies of the clocks as later waves see them: nobody sends before the earliest state, so what
        was free before then is just free."""
        copies = [each.copy() for each in self._clocks()]
        if not fresh:
            first = float(self._state.min())
            for clock in copies[2:4]:
                np.maximum(clock, first - self._ports.pause, out=clock)
            np.maximum(copies[4], first, out=copies[4])
        return copies

    def _counts(self) -> List[Array]:
        return [self._ports.busy, self._ports.sent, self._adding, self._handling]

    def _alike(self, part: Alike) -> None:
        """Runs waves until all clocks have moved alike since an earlier one, and multiplies the rest."""
        self._waves += part.count
        anchor: Optional[Tuple[int, List[Array], List[Array]]] = None
        number = 0
        while number < part.count:
            wave = part.wave(number)
            self._wave(wave)
            number += 1
            if not self._multiply or self._uplinks_vary(part):
                continue
            seen = self._seen(wave.fresh)
            if anchor is not None:
                moves = _moves(seen, anchor[1], wave.fresh)
                period = number - anchor[0]
                if moves is not None and part.count - number >= period:
                    times = (part.count - number) // period
                    for clock, move in zip(self._clocks(), moves):
                        clock += times * move
                    for count, before in zip(self._counts(), anchor[2]):
                        count += times * (count - before)
                    number += times * period
                    anchor = None
                    continue
            if number & (number - 1) == 0:  # Brent: look back to the last power of two
                anchor = (number, seen, [each.copy() for each in self._counts()])

    def _uplinks_vary(self, part: Alike) -> bool:
        """Whether other messages leave their pods in each wave: hosts are alike, and waves are not."""
        first, second = part.wave(0), part.wave(min(1, part.count - 1))
        return self._cluster.tree is not None and not (np.array_equal(first.src, second.src)
                                                       and np.array_equal(first.dst, second.dst))

    # ---- chains -----------------------------------------------------------------------------------

    def _run_chain(self) -> None:
        """Hop h sends chunk c in step h + c; who begins gets nothing, so its state stays the start. Of
        alike hosts the last ones do what those before did, later by the same time each: three short
        chains tell by how much."""
        hops = list(self._form.waves())
        self._waves = len(hops)
        if self._multiply and len(hops) > 16 * _HOPS_RUN and self._steady_hop(hops):
            return
        self._diagonals(hops)

    def _steady_hop(self, hops: List[Wave]) -> bool:
        ends = []
        for count in (_HOPS_RUN, 2 * _HOPS_RUN, 3 * _HOPS_RUN):
            short = Engine(self._cluster, self._form, self._plan, 0, self._rails)
            short._sizes = self._sizes
            short._diagonals(hops[:count])
            ends.append((float(short._done.max()), short))
        first, second = ends[1][0] - ends[0][0], ends[2][0] - ends[1][0]
        if abs(first - second) > _EQUAL * ends[2][0]:
            return False
        last = ends[2][1]
        self._waves_run = last._waves_run
        end = ends[2][0] + (len(hops) - 3 * _HOPS_RUN) * second / _HOPS_RUN
        middle = int(hops[_HOPS_RUN].src[0])
        for own, found in zip(self._counts(), last._counts()):
            own[:] = found[middle]  # every host but the two ends sends and takes all
        self._done[:] = end
        return True

    def _diagonals(self, hops: List[Wave]) -> None:
        src = np.array([int(hop.src[0]) for hop in hops])
        dst = np.array([int(hop.dst[0]) for hop in hops])
        chunks = self._plan.chunks
        for step in range(len(hops) + chunks - 1):
            hop = np.arange(max(0, step - chunks + 1), min(len(hops), step + 1))
            self._wave(Wave(src[hop], dst[hop], 0, 0, 1, 0, reduces=hops[0].reduces, token=True,
                            chunk=step - hop))


def _moves(now: Sequence[Array], before: Sequence[Array], fresh: bool) -> Optional[List[float]]:
    """By how much each kind of clock has moved, everywhere alike; None where it will not go on like that.

    What is sent fresh waits for the sender's port alone: senders, receivers and processors may then move
    at speeds of their own, if each is at least as fast as what feeds it (it could not have got ahead of
    its input otherwise). Else all are fed by each other, and move alike.
    """
    moves = []
    for each, then in zip(now, before):
        moved = each - then
        move = float(moved.flat[0])
        if np.abs(moved - move).max() > _EQUAL * abs(move) + _ROUNDING * float(each.max()):
            return None
        moves.append(move)
    state, _, tx, rx, cpu, done = moves
    fed = [tx, rx, cpu, state, done] if fresh else [done, *moves]
    slack = _EQUAL * done + _ROUNDING * float(now[-1].max())
    goes_on = tx > 0 and all(later >= earlier - slack for earlier, later in zip(fed, fed[1:]))
    return moves if goes_on else None
