"""Who sends what to whom, and when: drawn alike on every rank, and for every policy. Pure.

Sizes and times between two messages of a rank are exponential, receivers uniform among the other ranks,
as in the study of rail allocation (docs/rail_study.md).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, List

import numpy as np

PATTERN = 251  # a prime, so that a message that landed elsewhere differs


@dataclass(frozen=True)
class Sent:
    """The messages of one rank in the order of sending; arrays of one length.

    at_s: seconds from the beginning of the run. sizes: bytes, at least 1. receivers: ranks.
    """

    at_s: Any
    sizes: Any
    receivers: Any


def draw(ranks: int, mean: int, load: float, limit: float, seconds: float, seed: int) -> List[Sent]:
    """What each rank is to send in `seconds`. limit: bytes per second of a load of 1."""
    gap = mean / (load * limit)
    count = int(seconds / gap) + 6 * int((seconds / gap) ** 0.5) + 6  # beyond `seconds` nearly always
    random = np.random.default_rng([seed, ranks, mean])
    traffic = []
    for rank in range(ranks):
        at = np.cumsum(random.exponential(1.0, count)) * gap
        sizes = np.maximum(1, np.rint(random.exponential(1.0, count) * mean)).astype(np.int64)
        receivers = random.integers(0, ranks - 1, count)
        receivers += receivers >= rank
        used = at < seconds
        traffic.append(Sent(at[used], sizes[used], receivers[used]))
    return traffic


def contents(longest: int) -> Any:
    """Bytes of which every message is a part: message i of a rank begins at i modulo PATTERN."""
    return (np.arange(longest + PATTERN, dtype=np.int64) % PATTERN).astype(np.uint8)
