"""Which rail a transfer takes where a policy gives shares: the shipped binder, for all pairs of hosts.

The rail that is furthest behind its share of the bytes takes the next transfer; what one operation leaves
uneven the next one evens out (RailBinder in rails/policies/binder.h; a test asks it).
"""

from __future__ import annotations

from typing import Any, Dict, Sequence, Tuple

import numpy as np

Array = np.ndarray[Any, Any]
PROBE_BYTES = 128 * 1024  # that a probed rail takes first


class Binders:
    """One binder for every pair of hosts that a wave connects; kept from operation to operation."""

    def __init__(self, rails: int) -> None:
        self._weight = np.full(rails, 1 / rails)
        self._probe = -1
        self._owed: Dict[Tuple[bytes, bytes], Array] = {}
        self._left: Dict[Tuple[bytes, bytes], Array] = {}

    def begin(self, weight: Sequence[float], probe: int = -1) -> None:
        """For the operation that comes: shares that add up to 1, and the rail to probe (-1: none)."""
        self._weight, self._probe = np.asarray(weight, float), probe
        self._left.clear()

    def pick(self, src: Array, dst: Array, size: Array) -> Array:
        """The rail of each transfer src[i] -> dst[i] of size[i] bytes."""
        key = src.tobytes(), dst.tobytes()
        owed = self._owed.setdefault(key, np.zeros((src.size, self._weight.size)))
        owing = owed + size[:, None] * self._weight
        rail: Array = np.where(self._weight > 0, owing, -np.inf).argmax(axis=1)
        row = np.arange(src.size)
        if self._probe < 0:
            owed[:] = owing
            owed[row, rail] -= size
            return rail
        left = self._left.setdefault(key, np.full(src.size, float(PROBE_BYTES)))
        probes = left > 0
        left -= np.minimum(left, size)
        owed[~probes] = owing[~probes]
        owed[row[~probes], rail[~probes]] -= size[~probes]
        return np.where(probes, self._probe, rail)
