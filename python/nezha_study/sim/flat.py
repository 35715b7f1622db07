"""Vector forms of the algorithms in which data goes around, down a tree or straight; see forms.py."""

from __future__ import annotations

from typing import Any, Callable, Iterator, List

import numpy as np

from . import exchanges
from .waves import Alike, Part, Wave

Array = np.ndarray[Any, Any]


def _token(ranks: int, number: int, start: int, stage: int, reduces: bool, first: bool) -> Wave:
    """Every rank sends the token to its right that was `number` ranks further left at the beginning."""
    rank = np.arange(ranks)
    return Wave(rank, (rank + 1) % ranks, (rank + start - number) % ranks, 0, 1, stage, reduces=reduces,
                fresh=first and number == 0, token=True)


def ring(ranks: int, root: int) -> Iterator[Part]:
    """All-reduce: a lap to collect, a lap to distribute."""
    yield Alike(ranks - 1, lambda number: [_token(ranks, number, 0, 0, True, True)])
    yield Alike(ranks - 1, lambda number: [_token(ranks, number, 1, 1, False, False)])


def half_ring(start: int, reduces: bool, ranks: int, root: int) -> Iterator[Part]:
    """All-gather and reduce-scatter: one lap."""
    yield Alike(ranks - 1, lambda number: [_token(ranks, number, start, 0, reduces, True)])


def to_all(slices: Callable[[Array, Array, int], Array], reduces: bool, ranks: int,
           root: int) -> Iterator[Part]:
    """Everybody to the rank `number + 1` after it; slices(src, dst, distance)."""
    rank = np.arange(ranks)

    def parts(number: int) -> List[Wave]:
        dst = (rank + number + 1) % ranks
        return [Wave(rank, dst, slices(rank, dst, number + 1), 0, 1, 0, reduces=reduces, fresh=True)]

    yield Alike(ranks - 1, parts)


def gather_direct(ranks: int, root: int) -> Iterator[Wave]:
    """Every block to the root."""
    for block in range(ranks):
        if block != root:
            yield Wave(np.array([block]), np.array([root]), block, 0, 1, 0, fresh=True)


def scatter_direct(ranks: int, root: int) -> Iterator[Wave]:
    """Every block from the root."""
    for block in range(ranks):
        if block != root:
            yield Wave(np.array([root]), np.array([block]), block, 0, 1, 0, fresh=True)


def chain(start: int, reduces: bool, ranks: int, root: int) -> Iterator[Part]:
    """Broadcast and reduce: from rank to rank."""
    for hop in range(ranks - 1):
        src = np.array([(root + start + hop) % ranks])
        yield Wave(src, (src + 1) % ranks, 0, 0, 1, 0, reduces=reduces, fresh=hop == 0, token=True)


def _pairs(ranks: int, stage: int) -> Array:
    """Positions, counted from the root, that hang below the one 2^stage before them."""
    return np.arange(1 << stage, ranks, 2 << stage)


def tree(ranks: int, root: int) -> Iterator[Wave]:
    """Broadcast: the number of ranks that know doubles."""
    for stage in reversed(range(_stages(ranks))):
        child = _pairs(ranks, stage)
        yield Wave((child - (1 << stage) + root) % ranks, (child + root) % ranks, 0, 0, 1, stage)


def reduce_tree(ranks: int, root: int) -> Iterator[Wave]:
    """Reduce: the same upwards."""
    for stage in range(_stages(ranks)):
        child = _pairs(ranks, stage)
        yield Wave((child + root) % ranks, (child - (1 << stage) + root) % ranks, 0, 0, 1, stage,
                   reduces=True)


def block_tree(up: bool, ranks: int, root: int) -> Iterator[Part]:
    """Gather (up) and scatter: between parent and child move the blocks of the child's subtree."""
    stages = range(_stages(ranks))
    for stage in stages if up else reversed(stages):
        position = _pairs(ranks, stage)
        child, parent = (position + root) % ranks, (position - (1 << stage) + root) % ranks
        ends = (child, parent) if up else (parent, child)
        yield from exchanges.runs(*ends, child, np.minimum(1 << stage, ranks - position), stage, ranks)


def dissemination(ranks: int, root: int) -> Iterator[Wave]:
    """Barrier: everybody hears of twice as many."""
    rank = np.arange(ranks)
    for stage in range(_stages(ranks)):
        yield Wave(rank, (rank + (1 << stage)) % ranks, 0, 0, 0, stage)


def _stages(ranks: int) -> int:
    return (ranks - 1).bit_length()
