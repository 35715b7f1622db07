"""The algorithms of the catalog in vector form, for worlds in which no rank's schedule is written out.

Each function is one file of src/schedule/algorithms, whose head says how it works; those for hosts with
several ranks are in hierarchy.py. What ships decides: tests/python/test_sim_forms.py and
test_sim_hierarchy.py compare every transfer with the shipped schedules.
"""

from __future__ import annotations

from functools import partial
from typing import Callable, Dict, Iterator, List, Optional, Tuple

import numpy as np

from nezha_tools.cli.errors import PlanError
from . import exchanges, flat, hierarchy
from .layout import Layout
from .waves import Form, Part


def form(collective: str, algorithm: str, ranks: int, root: int = 0,
         layout: Optional[Layout] = None) -> Form:
    """The vector form. layout: of the ranks; None: each has a host of its own. Raises PlanError for what
    is not in the catalog."""
    if layout is not None and layout.is_mixed and (collective, algorithm) in hierarchy.known():
        return hierarchy.form(collective, algorithm, layout, root)
    if (collective, algorithm) not in _FORMS:
        raise PlanError(f"algorithm {algorithm!r} of {collective}: it must be one of "
                        + ", ".join(name for kind, name in _FORMS if kind == collective))
    make = _FORMS[collective, algorithm]
    return Form(collective, algorithm, ranks, ranks, lambda: make(ranks, root) if ranks > 1 else iter(()),
                chain=algorithm == "chain")


def known(layout: Optional[Layout] = None) -> List[Tuple[str, str]]:
    """(collective, algorithm) of all forms for such hosts."""
    return [*_FORMS, *(hierarchy.known() if layout is not None and layout.is_mixed else [])]


_Maker = Callable[[int, int], Iterator[Part]]
_PAIRWISE = partial(flat.to_all, lambda src, dst, distance: np.full(src.shape, distance), False)
_FORMS: Dict[Tuple[str, str], _Maker] = {
    ("all_reduce", "ring"): flat.ring,
    ("all_reduce", "recursive_doubling"): exchanges.recursive_doubling,
    ("all_reduce", "halving_doubling"): exchanges.halving_doubling,
    ("all_reduce", "bcube"): exchanges.bcube,
    ("broadcast", "tree"): flat.tree,
    ("broadcast", "chain"): partial(flat.chain, 0, False),
    ("barrier", "dissemination"): flat.dissemination,
    ("all_gather", "ring"): partial(flat.half_ring, 0, False),
    ("all_gather", "direct"): partial(flat.to_all, lambda src, dst, distance: src, False),
    ("all_gather", "recursive_doubling"): exchanges.all_gather_doubling,
    ("all_gather", "bruck"): exchanges.bruck,
    ("reduce_scatter", "ring"): partial(flat.half_ring, -1, True),
    ("reduce_scatter", "direct"): partial(flat.to_all, lambda src, dst, distance: dst, True),
    ("reduce_scatter", "halving_doubling"): exchanges.reduce_scatter_halving,
    ("reduce", "tree"): flat.reduce_tree,
    ("reduce", "chain"): partial(flat.chain, 1, True),
    ("gather", "direct"): flat.gather_direct,
    ("gather", "tree"): partial(flat.block_tree, True),
    ("scatter", "direct"): flat.scatter_direct,
    ("scatter", "tree"): partial(flat.block_tree, False),
    ("all_to_all", "pairwise"): _PAIRWISE,
    ("all_to_all_v", "pairwise"): _PAIRWISE,
}
