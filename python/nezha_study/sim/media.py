"""What messages cross: the rails between hosts, the memory inside them; and the processors behind it.

Ranks of a host share its ports, which send and take their messages one after the other. Each rank has
memory to itself, at a rate of its own.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, List, Optional, Sequence, Tuple, Union

import numpy as np

from .binders import Binders
from .cluster import Cluster, uniform
from .layout import even
from .port_clocks import Ports

Array = np.ndarray[Any, Any]
Some = Union[Array, slice]


class Medium:
    """ports: its clocks; port_of: by rank, the row of them; cpu: by rank, from when its processor may
    take the next message that comes this way."""

    def __init__(self, ports: Ports, port_of: Array, start: Array) -> None:
        self.ports, self.port_of = ports, port_of
        self.cpu = start.copy()


class Media:
    """rails and memory, which is None where every rank has a host of its own. shares_cpu: what comes on
    either way waits for the other; for waves in the order of time."""

    def __init__(self, cluster: Cluster, rails: Sequence[int], binders: Optional[Binders],
                 shares_cpu: bool) -> None:
        layout = cluster.layout
        self._host_of = layout.host_of
        start = np.broadcast_to(cluster.start_s, (cluster.hosts,))[layout.host_of]
        self.rails = Medium(Ports(cluster, rails, binders), layout.host_of, start)
        self.memory: Optional[Medium] = None
        if not layout.is_single:
            rate, latency = cluster.inside
            inside = replace(uniform(1, [(rate, latency)]), hosts=layout.ranks, layout=even(layout.ranks),
                             start_s=start)
            self.memory = Medium(Ports(inside, [0]), np.arange(layout.ranks), start)
            if shares_cpu:
                self.memory.cpu = self.rails.cpu

    @property
    def all(self) -> List[Medium]:
        """Those that there are."""
        return [self.rails] if self.memory is None else [self.rails, self.memory]

    def groups(self, src: Array, dst: Array) -> List[Tuple[Medium, Some]]:
        """The messages src[i] -> dst[i] by what they cross, in groups of which no port and no rank sends
        two or takes two."""
        if self.memory is None:
            return [(self.rails, slice(None))]
        inside = self._host_of[src] == self._host_of[dst]
        found: List[Tuple[Medium, Some]] = []
        for medium, mask in ((self.memory, inside), (self.rails, ~inside)):
            keys = [src, dst]
            if medium is self.rails:
                keys += [self._host_of[src], self._host_of[dst]]
            found += [(medium, some) for some in _apart(keys, np.flatnonzero(mask))]
        return found


def _apart(keys: List[Array], left: Array) -> List[Array]:
    """Positions `left`, in groups in which no value of any key occurs twice; the first ones first."""
    found = []
    while left.size:
        some = left
        for key in keys:
            some = some[np.sort(np.unique(key[some], return_index=True)[1])]
        found.append(some)
        left = left[~np.isin(left, some, assume_unique=True)]
    return found
