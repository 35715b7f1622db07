"""The algorithms of the catalog in vector form, for worlds in which no rank's schedule is written out.

Each function is one file of src/schedule/algorithms, whose head says how it works. What ships decides:
tests/python/test_sim_forms.py compares every transfer with the shipped schedules of 2 to 64 ranks.
"""

from __future__ import annotations

from functools import partial
from typing import Any, Callable, Dict, Iterator, List, Tuple

import numpy as np

from .._command_errors import PlanError
from . import exchanges
from .waves import Alike, Form, Part, Wave

Array = np.ndarray[Any, Any]


def form(collective: str, algorithm: str, ranks: int, root: int = 0) -> Form:
    """The vector form. Raises PlanError for what is not in the catalog."""
    if (collective, algorithm) not in _FORMS:
        raise PlanError(f"algorithm {algorithm!r} of {collective}: it must be one of "
                        + ", ".join(name for kind, name in _FORMS if kind == collective))
    make = _FORMS[collective, algorithm]
    return Form(collective, algorithm, ranks, ranks, lambda: make(ranks, root) if ranks > 1 else iter(()),
                chain=algorithm == "chain")


def known() -> List[Tuple[str, str]]:
    """(collective, algorithm) of all forms."""
    return list(_FORMS)


def _token(ranks: int, number: int, start: int, stage: int, reduces: bool, first: bool) -> Wave:
    """Every rank sends the token to its right that was `number` ranks further left at the beginning."""
    rank = np.arange(ranks)
    return Wave(rank, (rank + 1) % ranks, (rank + start - number) % ranks, 0, 1, stage, reduces=reduces,
                fresh=first and number == 0, token=True)


def _ring(ranks: int, root: int) -> Iterator[Part]:
    yield Alike(ranks - 1, lambda number: _token(ranks, number, 0, 0, True, True))
    yield Alike(ranks - 1, lambda number: _token(ranks, number, 1, 1, False, False))


def _half_ring(start: int, reduces: bool, ranks: int, root: int) -> Iterator[Part]:
    yield Alike(ranks - 1, lambda number: _token(ranks, number, start, 0, reduces, True))


def _to_all(slices: Callable[[Array, Array, int], Array], reduces: bool, ranks: int,
            root: int) -> Iterator[Part]:
    """Everybody to the rank `number + 1` after it; slices(src, dst, distance)."""
    rank = np.arange(ranks)

    def wave(number: int) -> Wave:
        dst = (rank + number + 1) % ranks
        return Wave(rank, dst, slices(rank, dst, number + 1), 0, 1, 0, reduces=reduces, fresh=True)

    yield Alike(ranks - 1, wave)


def _gather_direct(ranks: int, root: int) -> Iterator[Part]:
    for block in range(ranks):
        if block != root:
            yield Wave(np.array([block]), np.array([root]), block, 0, 1, 0, fresh=True)


def _scatter_direct(ranks: int, root: int) -> Iterator[Part]:
    for block in range(ranks):
        if block != root:
            yield Wave(np.array([root]), np.array([block]), block, 0, 1, 0, fresh=True)


def _chain(start: int, reduces: bool, ranks: int, root: int) -> Iterator[Part]:
    for hop in range(ranks - 1):
        src = np.array([(root + start + hop) % ranks])
        yield Wave(src, (src + 1) % ranks, 0, 0, 1, 0, reduces=reduces, fresh=hop == 0, token=True)


def _pairs(ranks: int, stage: int) -> Array:
    """Positions, counted from the root, that hang below the one 2^stage before them."""
    return np.arange(1 << stage, ranks, 2 << stage)


def _tree(ranks: int, root: int) -> Iterator[Part]:
    for stage in reversed(range(_stages(ranks))):
        child = _pairs(ranks, stage)
        yield Wave((child - (1 << stage) + root) % ranks, (child + root) % ranks, 0, 0, 1, stage)


def _reduce_tree(ranks: int, root: int) -> Iterator[Part]:
    for stage in range(_stages(ranks)):
        child = _pairs(ranks, stage)
        yield Wave((child + root) % ranks, (child - (1 << stage) + root) % ranks, 0, 0, 1, stage,
                   reduces=True)


def _block_tree(up: bool, ranks: int, root: int) -> Iterator[Part]:
    """Gather (up) and scatter: between parent and child move the blocks of the child's subtree."""
    stages = range(_stages(ranks))
    for stage in stages if up else reversed(stages):
        position = _pairs(ranks, stage)
        child, parent = (position + root) % ranks, (position - (1 << stage) + root) % ranks
        ends = (child, parent) if up else (parent, child)
        yield from exchanges.runs(*ends, child, np.minimum(1 << stage, ranks - position), stage, ranks)


def _dissemination(ranks: int, root: int) -> Iterator[Part]:
    rank = np.arange(ranks)
    for stage in range(_stages(ranks)):
        yield Wave(rank, (rank + (1 << stage)) % ranks, 0, 0, 0, stage)


def _stages(ranks: int) -> int:
    return (ranks - 1).bit_length()


_Maker = Callable[[int, int], Iterator[Part]]
_PAIRWISE = partial(_to_all, lambda src, dst, distance: np.full(src.shape, distance), False)
_FORMS: Dict[Tuple[str, str], _Maker] = {
    ("all_reduce", "ring"): _ring,
    ("all_reduce", "recursive_doubling"): exchanges.recursive_doubling,
    ("all_reduce", "halving_doubling"): exchanges.halving_doubling,
    ("all_reduce", "bcube"): exchanges.bcube,
    ("broadcast", "tree"): _tree,
    ("broadcast", "chain"): partial(_chain, 0, False),
    ("barrier", "dissemination"): _dissemination,
    ("all_gather", "ring"): partial(_half_ring, 0, False),
    ("all_gather", "direct"): partial(_to_all, lambda src, dst, distance: src, False),
    ("all_gather", "recursive_doubling"): exchanges.all_gather_doubling,
    ("all_gather", "bruck"): exchanges.bruck,
    ("reduce_scatter", "ring"): partial(_half_ring, -1, True),
    ("reduce_scatter", "direct"): partial(_to_all, lambda src, dst, distance: dst, True),
    ("reduce_scatter", "halving_doubling"): exchanges.reduce_scatter_halving,
    ("reduce", "tree"): _reduce_tree,
    ("reduce", "chain"): partial(_chain, 1, True),
    ("gather", "direct"): _gather_direct,
    ("gather", "tree"): partial(_block_tree, True),
    ("scatter", "direct"): _scatter_direct,
    ("scatter", "tree"): partial(_block_tree, False),
    ("all_to_all", "pairwise"): _PAIRWISE,
    ("all_to_all_v", "pairwise"): _PAIRWISE,
}
