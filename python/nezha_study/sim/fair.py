"""Max-min fair rates of flows that share links (Bertsekas and Gallager, Data Networks, 6.5.2).

The flows of the tightest link get equal parts of it, then those of the next one, and so on.
"""

from __future__ import annotations

from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
_ROUNDING = 1e-9  # relative: as tight as each other


def rates(links: Array, capacity: Array) -> Array:
    """The rate of every flow. links: shape (links a flow crosses, flows), indices into `capacity`; a flow
    that crosses fewer repeats one of them. capacity: what a link carries, above 0.

    Links that are the tightest for all of their flows are settled together.
    """
    flows = links.shape[1]
    found = np.zeros(flows)
    left = capacity.astype(float)
    open_flows = np.arange(flows)
    once = np.ones(links.shape, bool)  # whether a flow has not named the link before
    for row in range(1, links.shape[0]):
        once[row] = (links[:row] != links[row]).all(axis=0)
    while open_flows.size:
        crossed, counts = links[:, open_flows], once[:, open_flows]
        on = np.bincount(crossed[counts], minlength=left.size)
        part = np.full(left.size, np.inf)
        np.divide(left, on, out=part, where=on > 0)
        least = part[crossed].min(axis=0)
        least_of_link = np.full(left.size, np.inf)
        np.minimum.at(least_of_link, crossed, np.broadcast_to(least, crossed.shape))
        tight = least_of_link >= part * (1 - _ROUNDING)
        settled = tight[crossed].any(axis=0)
        now = open_flows[settled]
        found[now] = least[settled]
        taken = np.where(counts[:, settled], least[settled], 0)
        left -= np.bincount(crossed[:, settled].ravel(), taken.ravel(), minlength=left.size)
        np.maximum(left, 0, out=left)
        open_flows = open_flows[~settled]
    return found
