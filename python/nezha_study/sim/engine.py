"""The engine: runs a form on a cluster, wave by wave, all hosts at once.

Of every chunk a rank's state is the time from which it may send on. A wave reads the senders' states,
crosses the ports (media.py), adds at the receivers one message after the other, and writes their states.
Everything is maxima and sums of times, so where hosts, sizes and waves are alike, a state that has moved
by the same time everywhere moves on like that: such waves are multiplied and not run (max-plus
homogeneity; test_sim_engine.py compares with running all).
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import partial
from itertools import islice
from typing import Any, List, Optional, Sequence, Tuple, Union

import numpy as np

from .binders import Binders
from .cluster import Cluster
from .media import Media, Medium, Some
from .port_clocks import Crossing
from .waves import Alike, Burst, Form, Index, Plan, Sizes, Wave

Array = np.ndarray[Any, Any]
_EQUAL = 1e-9  # relative: the same move everywhere
_ROUNDING = 1e-14  # of sums of times
_HOSTS_RUN = 64  # of a chain of alike hosts, before the rest is multiplied


@dataclass(frozen=True)
class Transfer:
    """One message: ranks, rail (-1: inside a host), bytes, and its times in seconds."""

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
    """What an operation took. done_s: when each rank was done; busy_s, sent: shape (hosts, rails in
    use), of what it sent; inside_s: by rank, of what it sent inside its host; adding_s, handling_s:
    processor time by rank; waves: how many there are, and how many of them were run."""

    total_s: float
    done_s: Array
    rails: List[int]
    busy_s: Array
    sent: Array
    timed_s: Array
    inside_s: Array
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
        self._media = Media(cluster, rails, binders, shares_cpu=form.chain)
        host_of = cluster.layout.host_of
        self._start = np.broadcast_to(cluster.start_s, (cluster.hosts,))[host_of]
        self._adds = np.broadcast_to(cluster.adds, (cluster.hosts,))[host_of]
        owners = np.repeat(np.arange(cluster.ranks), form.lanes // cluster.ranks)
        lanes = self._start[owners if form.owners is None else form.owners]
        passes_on = form.chain and all(wave.token for wave in islice(form.waves(), 1))
        self._rows = 1 if passes_on else made.chunks
        self._state = np.tile(lanes, (self._rows, 1))
        self._round = self._state.copy()  # from when the round of a lane's last send was open
        self._done = self._start.copy()
        self._adding = np.zeros(cluster.ranks)
        self._handling = np.zeros(cluster.ranks)
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
                if isinstance(part, Alike):
                    for piece in self._pieces(part):
                        self._alike(piece)
                else:
                    self._waves += self._one(part, range(self._plan.chunks))
        begun = float(self._start.min())
        total = float(self._done.max()) - begun
        ports, memory = self._media.rails.ports, self._media.memory
        inside = np.zeros_like(self._start) if memory is None else memory.ports.busy[:, 0]
        return Outcome(total, self._done, self._rails, ports.busy, ports.sent, ports.timed, inside,
                       self._adding, self._handling, self._waves, self._waves_run, self._transfers)

    def _run_at_once(self) -> None:
        """A host sends a chunk on to everybody before it sends the next one."""
        waves = list(self._form.waves())
        self._waves = self._waves_run = len(waves)
        for chunk in range(self._plan.chunks):
            for wave in waves:
                self._step(wave, chunk, np.asarray(chunk))

    def _one(self, part: Union[Wave, Burst], chunks: Sequence[int]) -> int:
        """Runs these chunks of a wave, or of all waves of a burst; how many waves that are."""
        waves = part.waves if isinstance(part, Burst) else [part]
        for chunk in chunks:
            for wave in waves:
                self._step(wave, chunk, np.asarray(chunk))
        self._waves_run += len(waves)
        return len(waves)

    def _step(self, wave: Wave, row: Index, chunk: Array) -> None:
        """One chunk of a wave, or one of each transfer; row: of the states."""
        size = self._sizes.of(wave, chunk)
        src_lane, dst_lane = (wave.src, wave.dst) if wave.lanes is None else wave.lanes
        if wave.fresh:
            ready = self._start[wave.src]
        else:
            ready = self._state[row, src_lane]
            if wave.again is not False:
                ready = np.where(wave.again, self._round[row, src_lane], ready)
            self._round[row, src_lane] = ready
        adding = np.where(wave.reduces, size / self._adds[wave.dst], 0)
        landed = np.empty_like(ready)
        for medium, some in self._media.groups(wave.src, wave.dst):
            landed[some] = self._send(medium, wave, some, size[some], ready[some], adding[some], chunk)
        if wave.token:
            self._state[row, dst_lane] = landed
        elif not wave.ends:
            self._state[row, dst_lane] = np.maximum(self._state[row, dst_lane], landed)

    def _send(self, medium: Medium, wave: Wave, some: Some, size: Array, ready: Array, adding: Array,
              chunk: Array) -> Array:
        """When these transfers of a wave have landed; no rank or port sends or takes two of them."""
        src, dst = wave.src[some], wave.dst[some]
        crossed = medium.ports.cross(medium.port_of[src], medium.port_of[dst], size, ready)
        landed = np.maximum(crossed.arrived, medium.cpu[dst]) + self._cluster.gap_s + adding
        medium.cpu[dst] = landed
        self._adding[dst] += adding
        self._handling[dst] += self._cluster.gap_s
        self._done[dst] = np.maximum(self._done[dst], landed)
        self._done[src] = np.maximum(self._done[src], crossed.told)
        if self._record:
            self._note(medium, wave, some, size, crossed, landed, chunk)
        return np.asarray(landed)

    def _note(self, medium: Medium, wave: Wave, some: Some, size: Array, crossed: Crossing, landed: Array,
              chunk: Array) -> None:
        src, dst = wave.src[some], wave.dst[some]
        stages = np.broadcast_to(wave.stage, wave.src.shape)[some]
        chunks = np.broadcast_to(chunk, wave.src.shape)[some]
        for i in range(src.size):
            rail = self._rails[int(crossed.rail[i])] if medium is self._media.rails else -1
            self._transfers.append(Transfer(
                int(src[i]), int(dst[i]), rail, float(size[i]), float(crossed.begin[i]),
                float(crossed.end[i]), float(landed[i]), int(stages[i]), int(chunks[i])))

    # ---- what repeats ---------------------------------------------------------------------------

    def _clocks(self, rows: slice) -> List[Array]:
        """States and rounds, who is done, and of every medium its ports and processors."""
        clocks = [self._state[rows], self._round[rows], self._done]
        for medium in self._media.all:
            clocks += [medium.ports.tx, medium.ports.rx, medium.cpu]
        return clocks

    def _seen(self, rows: slice, fresh: bool) -> List[Array]:
        """Copies of the clocks as later waves see them: nobody sends before the earliest state, so what
        was free before then is just free."""
        copies = [each.copy() for each in self._clocks(rows)]
        if not fresh:
            first = float(copies[0].min())
            for number, medium in enumerate(self._media.all):
                sends, takes, cpu = copies[3 + 3 * number:6 + 3 * number]
                for clock in (sends, takes):
                    np.maximum(clock, first - medium.ports.pause, out=clock)
                np.maximum(cpu, first, out=cpu)
        return copies

    def _counts(self) -> List[Array]:
        media = [each for medium in self._media.all for each in (medium.ports.busy, medium.ports.sent)]
        return [*media, self._adding, self._handling]

    def _alike(self, part: Alike) -> None:
        chunks = self._plan.chunks
        together = 1 if part.by_chunk else chunks
        for first in range(0, chunks, together):
            self._repeat(part, slice(first, first + together))
        self._waves += part.count * sum(
            len(each.waves) if isinstance(each, Burst) else 1 for each in part.parts(0))

    def _repeat(self, part: Alike, rows: slice) -> None:
        """Runs waves until all clocks have moved alike since earlier ones, and multiplies the rest."""
        anchor: Optional[Tuple[int, List[Array], List[Array]]] = None
        number = 0
        while number < part.count:
            parts = part.parts(number)
            for each in parts:
                self._one(each, range(rows.start, rows.stop))
            number += 1
            if not self._multiply or self._uplinks_vary(part):
                continue
            fresh = _first(part, number - 1).fresh
            seen = self._seen(rows, fresh)
            if anchor is not None:
                moves = _moves(seen, anchor[1], fresh)
                period = number - anchor[0]
                if moves is not None and part.count - number >= period:
                    times = (part.count - number) // period
                    for clock, move in zip(self._clocks(rows), moves):
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
        return self._cluster.tree is not None and _partners_vary(part)

    def _pieces(self, part: Alike) -> List[Alike]:
        """The first and the last waves by themselves, where messages between partners at a growing
        distance stay inside hosts at first, and again at last."""
        near = self._cluster.layout.most - 1
        if near == 0 or part.count <= 2 * near or not _partners_vary(part):
            return [part]
        cuts = [0, near, part.count - near, part.count]
        return [Alike(end - begin, partial(_from, part, begin))
                for begin, end in zip(cuts, cuts[1:])]

    # ---- chains -----------------------------------------------------------------------------------

    def _run_chain(self) -> None:
        """Hop h sends chunk c in step h + c; who begins gets nothing, so its state stays the start. Of
        alike hosts the last ones do what those before did, later by the same time each: three short
        chains tell by how much. (Not where the chain ends on the host on which it began.)"""
        hops = list(self._form.waves())
        self._waves = len(hops)
        host_of = self._cluster.layout.host_of
        if (self._multiply and self._cluster.hosts > 16 * _HOSTS_RUN
                and host_of[hops[0].src[0]] != host_of[hops[-1].dst[-1]] and self._steady_hop(hops)):
            return
        self._diagonals(hops)

    def _steady_hop(self, hops: List[Wave]) -> bool:
        ends = []
        for count in (_HOSTS_RUN, 2 * _HOSTS_RUN, 3 * _HOSTS_RUN):
            short = Engine(self._cluster, self._form, self._plan, 0, self._rails)
            short._sizes = self._sizes
            short._diagonals(self._first_hosts(hops, count))
            ends.append((float(short._done.max()), short))
        first, second = ends[1][0] - ends[0][0], ends[2][0] - ends[1][0]
        if abs(first - second) > _EQUAL * ends[2][0]:
            return False
        last = ends[2][1]
        self._waves_run = last._waves_run
        end = ends[2][0] + (self._cluster.hosts - 3 * _HOSTS_RUN) * second / _HOSTS_RUN
        middle = self._cluster.layout.host_of[self._first_hosts(hops, _HOSTS_RUN)[-1].src[-1]]
        for own, found in zip(self._counts(), last._counts()):
            # Every host but the two ends sends and takes all.
            own.reshape(self._cluster.hosts, -1)[:] = found.reshape(self._cluster.hosts, -1)[middle]
        self._done[:] = end
        return True

    def _first_hosts(self, hops: List[Wave], count: int) -> List[Wave]:
        """The same chain of only as many hosts as it begins with."""
        layout = self._cluster.layout
        some = hops[:(count + 1) * layout.most + 1]
        order = np.concatenate([layout.host_of[hop.src] for hop in some])
        first = np.sort(np.unique(order, return_index=True)[1])[:count]
        found = []
        for hop in some:
            kept = np.isin(layout.host_of[np.array([hop.src, hop.dst])], order[first]).all(axis=0)
            found.append(replace(hop, src=hop.src[kept], dst=hop.dst[kept]))
        while not found[-1].src.size:
            found.pop()
        return found

    def _diagonals(self, hops: List[Wave]) -> None:
        if not hops:
            return
        begin = np.cumsum([0, *(hop.src.size for hop in hops)])
        number = np.repeat(np.arange(len(hops)), np.diff(begin))
        src, dst = (np.concatenate(each) for each in zip(*((hop.src, hop.dst) for hop in hops)))
        chunks = self._plan.chunks
        for step in range(len(hops) + chunks - 1):
            some = slice(begin[max(0, step - chunks + 1)], begin[min(len(hops), step + 1)])
            chunk = step - number[some]
            wave = Wave(src[some], dst[some], 0, 0, 1, 0, reduces=hops[0].reduces, token=hops[0].token)
            self._step(wave, np.minimum(chunk, self._rows - 1), chunk)
            self._waves_run += 1


def _from(part: Alike, begin: int, number: int) -> Sequence[Union[Wave, Burst]]:
    return part.parts(begin + number)


def _first(part: Alike, number: int) -> Wave:
    first = part.parts(number)[0]
    return first.waves[0] if isinstance(first, Burst) else first


def _partners_vary(part: Alike) -> bool:
    first, second = _first(part, 0), _first(part, min(1, part.count - 1))
    return not (np.array_equal(first.src, second.src) and np.array_equal(first.dst, second.dst))


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
    state, _, done, *media = moves
    slack = _EQUAL * done + _ROUNDING * float(now[2].max())
    fed = []
    for tx, rx, cpu in zip(media[::3], media[1::3], media[2::3]):
        fed += [(tx, rx), (rx, cpu), (cpu, state)]
    pairs = [*fed, (state, done)] if fresh else zip([done, *moves], [*moves, done])
    goes_on = max(media[::3]) > 0 and all(later >= earlier - slack for earlier, later in pairs)
    return moves if goes_on else None
