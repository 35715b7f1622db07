"""The algorithms for hosts with several ranks in vector form; src/schedule/hierarchy says how they work.

Every stage of a phase is numbered from 64 times the phase on, and every message of a run from 16384
(src/schedule/composition.cc).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Callable, Dict, Iterable, Iterator, List, Optional, Tuple

import numpy as np

from . import exchanges, flat
from .layout import Layout
from .waves import Alike, Burst, Form, Part, Wave

Array = np.ndarray[Any, Any]
_PHASE = 64
_RUN = 16384
_BURST_MAX = 8  # ranks of a host, up to which a leader hears from all and tells all in one burst


def form(collective: str, algorithm: str, layout: Layout, root: int) -> Form:
    """The form of one of known(), for hosts of which one has several ranks."""
    waves, width = _FORMS[collective, algorithm]
    lanes = layout.hosts * layout.most if width else layout.ranks
    owners = np.repeat(layout.first, layout.most) if width else None
    is_chain = algorithm == "hierarchical" and collective in ("broadcast", "reduce")
    return Form(collective, algorithm, layout.ranks, lanes, lambda: waves(layout, root), is_chain, owners)


def known() -> List[Tuple[str, str]]:
    """(collective, algorithm) of all forms."""
    return list(_FORMS)


# ---- leaders --------------------------------------------------------------------------------------


class _LocalRanks:
    """All ranks as their leaders see them. position: counted from the leader, round the host."""

    def __init__(self, layout: Layout, root: Optional[int] = None) -> None:
        self.layout = layout
        self.leaders = layout.first.copy()
        if root is not None:
            self.leaders[layout.host_of[root]] = root
        self.count = layout.counts[layout.host_of]
        place = np.arange(layout.ranks) - layout.first[layout.host_of]
        leads = (self.leaders - layout.first)[layout.host_of]
        self.position = (place - leads) % self.count

    def at(self, host: Array, position: Array) -> Array:
        """The rank at a position of a host."""
        first = self.layout.first[host]
        return np.asarray(first + (self.leaders[host] - first + position) % self.layout.counts[host])

    def to_leader(self, reduces: bool, begin: Any = 0, end: Any = 1, burst_only: bool = False) -> Burst:
        """Everybody to the leader: parts [begin, end), of all or by rank."""
        return Burst(list(self._inside(True, reduces, begin, end, burst_only, 0)))

    def from_leader(self, phase: int, begin: Any = 0, end: Any = 1, burst_only: bool = False) -> Burst:
        """The leader to everybody: parts [begin, end), of all or by rank that gets them."""
        return Burst(list(self._inside(False, False, begin, end, burst_only, phase * _PHASE)))

    def _inside(self, up: bool, reduces: bool, begin: Any, end: Any, burst_only: bool,
                stage: int) -> Iterator[Wave]:
        bursts = (self.count <= _BURST_MAX) | burst_only
        for distance in range(1, self.layout.most):
            apart = self.count - distance if up else np.full_like(self.count, distance)
            of = np.flatnonzero(bursts & (distance < self.count) & (self.position == apart))
            yield from self._pairs(of, apart, up, reduces, begin, end, stage)
        stages = range((self.layout.most - 1).bit_length())
        for turn in stages if up else reversed(stages):
            half = 1 << turn
            of = np.flatnonzero(~bursts & (self.position % (2 * half) == half))
            apart = np.full_like(self.count, half)
            yield from self._pairs(of, apart, up, reduces, begin, end, stage + turn)

    def _pairs(self, ranks: Array, apart: Array, up: bool, reduces: bool, begin: Any, end: Any,
               stage: int) -> Iterator[Wave]:
        """Between ranks and those `apart` positions before them."""
        if ranks.size:
            other = self.at(self.layout.host_of[ranks], self.position[ranks] - apart[ranks])
            src, dst = (ranks, other) if up else (other, ranks)
            begin, end = (each[ranks] if np.ndim(each) else each for each in (begin, end))
            yield Wave(src, dst, 0, begin, end, stage, reduces=reduces)

    def among(self, waves: Iterable[Wave], phase: int, each: int = 0) -> Iterator[Wave]:
        """Waves of a world of hosts, between the leaders. each: parts are those of the hosts' ranks, so
        many of every rank."""
        bounds = each * np.append(self.layout.first, self.layout.ranks)
        for wave in waves:
            begin, end = (bounds[wave.begin], bounds[wave.end]) if each else (wave.begin, wave.end)
            yield replace(wave, src=self.leaders[wave.src], dst=self.leaders[wave.dst], begin=begin,
                          end=end, stage=wave.stage + phase * _PHASE, slot=wave.slot * _RUN)


def _all_reduce_leaders(layout: Layout, root: int) -> Iterator[Part]:
    local = _LocalRanks(layout)
    yield local.to_leader(True)
    yield from local.among(exchanges.recursive_doubling(layout.hosts, 0), 1)
    yield local.from_leader(2)


def _all_gather_leaders(layout: Layout, root: int) -> Iterator[Part]:
    return _gather_by_leaders(layout, 1)


def _all_to_all_leaders(layout: Layout, root: int) -> Iterator[Part]:
    return _gather_by_leaders(layout, layout.ranks)


def _gather_by_leaders(layout: Layout, each: int) -> Iterator[Part]:
    """Every rank has so many parts."""
    local, first = _LocalRanks(layout), each * np.arange(layout.ranks)
    yield local.to_leader(False, first, first + each, burst_only=True)
    yield from local.among(exchanges.bruck(layout.hosts, 0), 1, each)
    yield local.from_leader(2, 0, each * layout.ranks)


def _reduce_scatter_leaders(layout: Layout, root: int) -> Iterator[Part]:
    local, rank = _LocalRanks(layout), np.arange(layout.ranks)
    yield local.to_leader(True, 0, layout.ranks)
    for wave in local.among(exchanges.recursive_doubling(layout.hosts, 0), 1):
        yield replace(wave, end=layout.ranks)
    yield local.from_leader(2, rank, rank + 1, burst_only=True)


def _barrier_leaders(layout: Layout, root: int) -> Iterator[Part]:
    local = _LocalRanks(layout)
    yield local.to_leader(False, 0, 0, burst_only=True)
    yield from local.among(flat.dissemination(layout.hosts, 0), 1)
    yield local.from_leader(2, 0, 0)


def _broadcast_leaders(layout: Layout, root: int) -> Iterator[Part]:
    local = _LocalRanks(layout, root)
    yield from local.among(flat.tree(layout.hosts, int(layout.host_of[root])), 0)
    yield local.from_leader(1)


def _reduce_leaders(layout: Layout, root: int) -> Iterator[Part]:
    local = _LocalRanks(layout, root)
    yield local.to_leader(True)
    yield from local.among(flat.reduce_tree(layout.hosts, int(layout.host_of[root])), 1)


# ---- chains ---------------------------------------------------------------------------------------


def _broadcast_chains(layout: Layout, root: int) -> Iterator[Part]:
    """From host to host; the k-th host hands on inside from wave k on."""
    local, hosts = _LocalRanks(layout, root), layout.hosts
    order = (layout.host_of[root] + np.arange(hosts)) % hosts
    for number in range(hosts + layout.most - 2):
        yield _hop(local, order, number, number, 0, _PHASE, False)


def _reduce_chains(layout: Layout, root: int) -> Iterator[Part]:
    """The k-th host collects inside from wave k on, and its leader hands on when that is there."""
    local, hosts = _LocalRanks(layout, root), layout.hosts
    order = (layout.host_of[root] + 1 + np.arange(hosts)) % hosts
    for number in range(hosts + layout.most - 1):
        yield _hop(local, order, number, number - layout.most, _PHASE, 0, True)


def _hop(local: _LocalRanks, order: Array, number: int, sender: int, stage: int, inside_stage: int,
         reduces: bool) -> Wave:
    """One wave: inside each host that is at it, and from the `sender`-th host to the next one."""
    hosts, most = order.size, local.layout.most
    inside = number - np.arange(max(0, number - hosts + 1), min(most - 1, number + 1))
    host, place = order[inside], number - inside
    first = place + 1 if reduces else place
    last = local.layout.counts[host] - 1
    host, first = host[place < last], first[place < last]
    src, dst = local.at(host, first), local.at(host, first + 1)
    stages = np.full(src.size, inside_stage)
    if 0 <= sender < hosts - 1:
        src = np.append(src, local.leaders[order[sender]])
        dst = np.append(dst, local.leaders[order[sender + 1]])
        stages = np.append(stages, stage)
    return Wave(src, dst, 0, 0, 1, stages, reduces=reduces, token=not reduces)


# ---- tokens ---------------------------------------------------------------------------------------


class _Tokens:
    """What goes around the ring of hosts: for every host several tokens that begin there; shards of its
    slices, or the blocks of its ranks. A token has a holder on every host, and a lane there."""

    def __init__(self, layout: Layout, shards: int = 0) -> None:
        self._layout, self._shards = layout, shards
        self._host = np.repeat(np.arange(layout.hosts), layout.most)
        self._number = np.tile(np.arange(layout.most), layout.hosts)

    def _of(self, origin: Array) -> Tuple[Array, Array, Array, Array, Array]:
        """Where host h has the tokens that began at origin[h]: host, place of the holder, slice, lane,
        and the host's ranks."""
        layout = self._layout
        began = origin[self._host]
        width = np.full(began.size, self._shards) if self._shards else layout.counts[began]
        kept = np.flatnonzero(self._number < width)
        host, number, began = self._host[kept], self._number[kept], began[kept]
        count = layout.counts[host]
        slice_ = began * self._shards + number if self._shards else layout.first[began] + number
        return host, number * count // width[kept], slice_, kept, count

    def pass_on(self, origin: Array, stage: int, reduces: bool, fresh: bool = False) -> Wave:
        """From every host to the next one."""
        host, place, slice_, lane, _ = self._of(origin)
        to_host, to_place, _, to_lane, _ = self._of(np.roll(origin, 1))
        last = np.count_nonzero(host == self._layout.hosts - 1)  # which go to the first host
        first = self._layout.first
        return Wave(np.roll(first[host] + place, last), first[to_host] + to_place, np.roll(slice_, last),
                    0, 1, stage, reduces=reduces, fresh=fresh, lanes=(np.roll(lane, last), to_lane))

    def collect(self, began: int) -> List[Burst]:
        """Inside every host everybody to the holders of the tokens that begin at one host."""
        return [Burst(list(self._inside(np.full(self._layout.hosts, began), 0, True)))]

    def hand_out(self, origin: Array, stage: int, fresh: bool = False) -> Burst:
        """Inside every host the holders to everybody."""
        return Burst(list(self._inside(origin, stage, False, fresh)))

    def _inside(self, origin: Array, stage: int, up: bool, fresh: bool = True) -> Iterator[Wave]:
        host, place, slice_, lane, count = self._of(origin)
        first = self._layout.first[host]
        for distance in range(1, self._layout.most):
            some = np.flatnonzero(distance < count)
            other = (place - distance if up else place + distance) % count
            holder, mate = (first + place)[some], (first + other)[some]
            src, dst = (mate, holder) if up else (holder, mate)
            yield Wave(src, dst, slice_[some], 0, 1, stage, reduces=up, fresh=fresh, ends=not up,
                       lanes=(lane[some], lane[some]))


def _all_reduce_shards(layout: Layout, root: int) -> Iterator[Part]:
    hosts = layout.hosts
    tokens = _Tokens(layout, min(max(2 * layout.ranks // hosts, 1), layout.most))
    host = np.arange(hosts)
    yield Alike(hosts, tokens.collect, by_chunk=True)
    yield Alike(hosts - 1, lambda number: [tokens.pass_on((host - number) % hosts, _PHASE, True)])
    yield tokens.hand_out((host + 1) % hosts, 2 * _PHASE)
    yield Alike(hosts - 1, lambda number: [
        tokens.pass_on((host + 1 - number) % hosts, _PHASE + 1, False),
        tokens.hand_out((host - number) % hosts, 2 * _PHASE)])


def _all_gather_columns(layout: Layout, root: int) -> Iterator[Part]:
    hosts, tokens, host = layout.hosts, _Tokens(layout), np.arange(layout.hosts)
    yield tokens.hand_out(host, _PHASE, fresh=True)
    yield Alike(hosts - 1, lambda number: [
        tokens.pass_on((host - number) % hosts, 0, False, fresh=number == 0),
        tokens.hand_out((host - number - 1) % hosts, _PHASE)])


def _reduce_scatter_columns(layout: Layout, root: int) -> Iterator[Part]:
    hosts, tokens, host = layout.hosts, _Tokens(layout), np.arange(layout.hosts)
    yield Alike(hosts, tokens.collect, by_chunk=True)
    yield Alike(hosts - 1, lambda number: [tokens.pass_on((host - 1 - number) % hosts, _PHASE, True)])


# ---- counterparts ---------------------------------------------------------------------------------


def _all_to_all_counterparts(layout: Layout, root: int) -> Iterator[Part]:
    """Blocks for ranks after the sender by 1, 2 ...; between the first and the last host away all hosts
    do alike."""
    first, last = layout.most, layout.ranks - layout.most
    for distance in range(1, first):
        yield _pairs_apart(layout, distance)
    if layout.is_even:
        yield Alike(layout.hosts - 2, lambda number: [
            _pairs_apart(layout, (number + 1) * layout.most + each) for each in range(layout.most)])
    else:
        yield from (_pairs_apart(layout, distance) for distance in range(first, last))
    for distance in range(max(first, last), layout.ranks):
        yield _pairs_apart(layout, distance)


def _pairs_apart(layout: Layout, distance: int) -> Burst:
    """Every rank's block for the one `distance` after it, straight or through the counterpart of that."""
    source = np.arange(layout.ranks)
    target = (source + distance) % layout.ranks
    here, there = layout.host_of[source], layout.host_of[target]
    wanted = np.where(here == there, source, _counterparts(layout, target, here))
    others = np.flatnonzero(wanted != source)
    passed = others[np.unique(wanted[others], return_index=True)[1]]
    straight = np.setdiff1d(source, passed)
    waves = (Wave(straight, target[straight], distance, 0, 1, 1, fresh=True, ends=True),
             Wave(passed, wanted[passed], distance, 0, 1, 0, fresh=True, token=True),
             Wave(wanted[passed], target[passed], distance, 0, 1, 1, ends=True))
    return Burst([each for each in waves if each.src.size])


def _all_to_all_columns(layout: Layout, root: int) -> Iterator[Part]:
    """What a rank has for another host to its counterpart there, between ranks of a host straight; then
    what came in to those for whom it is."""
    yield Burst([*_to_columns(layout), *_to_mates(layout)])
    yield Burst(list(_out_of_columns(layout)))


def _to_columns(layout: Layout) -> Iterator[Wave]:
    source = np.arange(layout.ranks)
    for away in range(1, layout.hosts):
        host = (layout.host_of + away) % layout.hosts
        begin = source * layout.ranks + layout.first[host]
        end = begin + layout.counts[host]
        counterpart = _counterparts(layout, source, host)
        yield from _one_each(Wave(source, counterpart, 0, begin, end, 0, fresh=True))


def _to_mates(layout: Layout) -> Iterator[Wave]:
    for src, dst in _mates(layout, np.arange(layout.ranks)):
        part = src * layout.ranks + dst
        yield Wave(src, dst, 0, part, part + 1, 1, fresh=True)


def _out_of_columns(layout: Layout) -> Iterator[Wave]:
    for away in range(1, layout.hosts):
        source = np.arange(layout.ranks)
        host = (layout.host_of + away) % layout.hosts
        passes = _counterparts(layout, source, host)
        for turn in _turns(passes):
            for src, dst in _mates(layout, passes[turn]):
                of = source[turn][np.isin(passes[turn], src)]
                part = of * layout.ranks + dst
                yield Wave(src, dst, 0, part, part + 1, 2, of, ends=True)


def _counterparts(layout: Layout, ranks: Array, hosts: Array) -> Array:
    """By rank, who stands for it on that host."""
    here = layout.host_of[ranks]
    place = (ranks - layout.first[here]) * layout.counts[hosts] // layout.counts[here]
    return np.asarray(layout.first[hosts] + place)


def _mates(layout: Layout, ranks: Array) -> Iterator[Tuple[Array, Array]]:
    """These ranks, each with another one of its host, and another."""
    first, count = (each[layout.host_of[ranks]] for each in (layout.first, layout.counts))
    for away in range(1, layout.most):
        some = np.flatnonzero(away < count)
        mate = first + (ranks - first + away) % count
        yield ranks[some], mate[some]


def _turns(ranks: Array) -> Iterator[Array]:
    """Places of a list with each rank once, then of those that are there again."""
    left = np.arange(ranks.size)
    while left.size:
        some = np.sort(np.unique(ranks[left], return_index=True)[1])
        yield left[some]
        left = np.delete(left, some)


def _one_each(wave: Wave) -> Iterator[Wave]:
    """The same transfers in waves in which no rank takes two."""
    for turn in _turns(wave.dst):
        yield replace(wave, src=wave.src[turn], dst=wave.dst[turn], begin=np.asarray(wave.begin)[turn],
                      end=np.asarray(wave.end)[turn])


_Maker = Callable[[Layout, int], Iterator[Part]]
_FORMS: Dict[Tuple[str, str], Tuple[_Maker, bool]] = {  # and whether its lanes are those of tokens
    ("all_reduce", "hierarchical"): (_all_reduce_shards, True),
    ("all_reduce", "leaders"): (_all_reduce_leaders, False),
    ("all_gather", "hierarchical"): (_all_gather_columns, True),
    ("all_gather", "leaders"): (_all_gather_leaders, False),
    ("all_to_all", "hierarchical"): (_all_to_all_counterparts, False),
    ("all_to_all", "columns"): (_all_to_all_columns, False),
    ("all_to_all", "leaders"): (_all_to_all_leaders, False),
    ("reduce_scatter", "hierarchical"): (_reduce_scatter_columns, True),
    ("reduce_scatter", "leaders"): (_reduce_scatter_leaders, False),
    ("broadcast", "hierarchical"): (_broadcast_chains, False),
    ("broadcast", "leaders"): (_broadcast_leaders, False),
    ("reduce", "hierarchical"): (_reduce_chains, False),
    ("reduce", "leaders"): (_reduce_leaders, False),
    ("barrier", "leaders"): (_barrier_leaders, False),
}
