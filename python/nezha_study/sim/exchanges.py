"""Vector forms of the algorithms in which partners exchange; see forms.py."""

from __future__ import annotations

from typing import Any, Iterator, List, Optional

import numpy as np

from .waves import Wave

Array = np.ndarray[Any, Any]


def runs(src: Array, dst: Array, first: Array, count: Array, stage: int, ranks: int) -> Iterator[Wave]:
    """Blocks of `count` ranks from `first` on: one message, and a second one where they go round the end
    (src/schedule/algorithms/block_runs.h)."""
    end = first + count
    yield Wave(src, dst, 0, first, np.minimum(end, ranks), stage, slot=0)
    over = end > ranks
    if over.any():
        yield Wave(src[over], dst[over], 0, 0, (end - ranks)[over], stage, slot=1,
                   again=True)


class _Folding:
    """What src/schedule/algorithms/folding.h says, for all ranks at once."""

    def __init__(self, ranks: int) -> None:
        self.ranks = ranks
        self.stages = ranks.bit_length() - 1
        self.core = np.arange(1 << self.stages)
        self.extra = ranks - self.core.size
        self.rank = self.rank_of(self.core)
        self.folded = 2 * np.arange(self.extra)

    def rank_of(self, core: Array) -> Array:
        """The rank that a core rank is."""
        return np.where(core < self.extra, 2 * core + 1, core + self.extra)

    def first_of(self, core: Array) -> Array:
        """The first rank for which a core rank speaks."""
        return np.where(core < self.extra, 2 * core, core + self.extra)

    def give(self, begin: Any, end: Any, reduces: bool) -> Iterator[Wave]:
        """Folded ranks give their contribution away."""
        if self.extra:
            yield Wave(self.folded, self.folded + 1, 0, begin, end, 0, reduces=reduces)

    def result(self, begin: Any, end: Any, stage: int) -> Iterator[Wave]:
        """And get the result back."""
        if self.extra:
            yield Wave(self.folded + 1, self.folded, 0, begin, end, stage)

    def exchange(self, distance: int, begin: Array, end: Array, stage: int, reduces: bool) -> Wave:
        """Core ranks send parts [begin, end) to the one at `distance`."""
        return Wave(self.rank, self.rank_of(self.core ^ distance), 0, begin, end, stage, reduces=reduces)


def recursive_doubling(ranks: int, root: int) -> Iterator[Wave]:
    """All-reduce: partners exchange all they have."""
    fold = _Folding(ranks)
    zero, one = np.zeros_like(fold.core), np.ones_like(fold.core)
    yield from fold.give(0, 1, True)
    for stage in range(fold.stages):
        yield fold.exchange(1 << stage, zero, one, stage + 1, True)
    yield from fold.result(0, 1, fold.stages + 1)


def _ranges(fold: _Folding) -> List[Array]:
    """Of each stage of halving, where the range of a core rank begins that it keeps."""
    found = []
    for stage in range(fold.stages):
        size = fold.core.size >> (stage + 1)
        found.append(fold.core & ~(size - 1))
    return found


def _halves(fold: _Folding, blocks: bool) -> Iterator[Wave]:
    for stage, keep in enumerate(_ranges(fold)):
        size = fold.core.size >> (stage + 1)
        gift = keep ^ size
        begin, end = (fold.first_of(gift), fold.first_of(gift + size)) if blocks else (gift, gift + size)
        yield fold.exchange(size, begin, end, stage + 1, True)


def halving_doubling(ranks: int, root: int) -> Iterator[Wave]:
    """All-reduce: halves out, halves back."""
    fold = _Folding(ranks)
    whole = fold.core.size
    yield from fold.give(0, whole, True)
    yield from _halves(fold, False)
    for stage, keep in reversed(list(enumerate(_ranges(fold)))):
        size = whole >> (stage + 1)
        yield fold.exchange(size, keep, keep + size, 2 * fold.stages - stage, False)
    yield from fold.result(0, whole, 2 * fold.stages + 1)


def reduce_scatter_halving(ranks: int, root: int) -> Iterator[Wave]:
    """Reduce-scatter: halves out until one's own block is left."""
    fold = _Folding(ranks)
    yield from fold.give(0, ranks, True)
    yield from _halves(fold, True)
    yield from fold.result(fold.folded, fold.folded + 1, fold.stages + 1)


def all_gather_doubling(ranks: int, root: int) -> Iterator[Wave]:
    """All-gather: partners swap all blocks that they have."""
    fold = _Folding(ranks)
    yield from fold.give(fold.folded, fold.folded + 1, False)
    for stage in range(fold.stages):
        first = fold.core & ~((1 << stage) - 1)
        yield fold.exchange(1 << stage, fold.first_of(first), fold.first_of(first + (1 << stage)),
                            stage + 1, False)
    if fold.extra:
        yield from runs(fold.folded + 1, fold.folded, (fold.folded + 1) % ranks,
                        np.full(fold.extra, ranks - 1), fold.stages + 1, ranks)


def bruck(ranks: int, root: int) -> Iterator[Wave]:
    """All-gather: what a rank has doubles with every message."""
    rank = np.arange(ranks)
    for stage in range((ranks - 1).bit_length()):
        distance = 1 << stage
        yield from runs(rank, (rank - distance) % ranks, rank,
                        np.full(ranks, min(distance, ranks - distance)), stage, ranks)


def _bases(ranks: int) -> List[int]:
    bases, rest, factor = [], ranks, 2
    while rest > 1:
        while rest % factor == 0:
            bases.append(factor)
            rest //= factor
        factor += 1
    return bases[::-1]


def bcube(ranks: int, root: int) -> Iterator[Wave]:
    """All-reduce: exchanges along the digits of the rank."""
    rank, bases = np.arange(ranks), _bases(ranks)
    strides: List[int] = []
    for base in bases:
        strides.append((strides[-1] if strides else ranks) // base)
    begins: List[Array] = []
    begin: Optional[Array] = None
    for base, stride in zip(bases, strides):
        begins.append(np.zeros_like(rank) if begin is None else begin)
        begin = begins[-1] + rank // stride % base * stride
    last = 2 * len(bases) - 1
    for stage, (base, stride) in enumerate(zip(bases, strides)):
        yield from _digit(rank, base, stride, begins[stage], stage, True)
    for stage, (base, stride) in reversed(list(enumerate(zip(bases, strides)))):
        yield from _digit(rank, base, stride, begins[stage], last - stage, False)


def _digit(rank: Array, base: int, stride: int, begin: Array, stage: int,
           scatter: bool) -> Iterator[Wave]:
    """Ranks that differ in one digit: to the one `step` after, in turn. Scattered is the piece of the
    receiver, gathered that of the sender."""
    digit = rank // stride % base
    for step in range(1, base):
        other = (digit + step) % base
        first = begin + (other if scatter else digit) * stride
        yield Wave(rank, rank + (other - digit) * stride, 0, first, first + stride, stage,
                   reduces=scatter, again=step > 1)
