"""Who sends what to whom, and when: drawn before a run, alike for every policy with the same seed. Pure.

Sizes and times between two messages of a process are exponential, destinations uniform among the
processes of other hosts, as in the source.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from .case import Case


@dataclass(frozen=True)
class Traffic:
    """Arrays of shape (processes of all hosts, messages): microseconds, bytes, process ids.

    horizon_us: when a process has offered all of its messages, on average; what would come later
    belongs to nothing that is measured.
    """

    arrivals_us: Any
    sizes: Any
    destinations: Any
    horizon_us: float


def message_gap_us(case: Case) -> float:
    """Mean time between two messages of a process that makes `case.load`."""
    return case.mean_bytes * case.hosts * case.processes / (case.load * case.limit)


def draw(case: Case) -> Traffic:
    """The traffic of one run."""
    random = np.random.default_rng([case.seed, case.hosts, case.processes])
    count = case.messages + 4 * int(case.messages ** 0.5) + 4  # beyond the horizon nearly always
    shape = (case.hosts * case.processes, count)
    arrivals = np.cumsum(random.exponential(1.0, shape), axis=1) * message_gap_us(case)
    means = np.array(case.means)[random.integers(0, len(case.means), shape)]
    sizes = np.maximum(1, np.rint(random.exponential(1.0, shape) * means)).astype(np.int64)
    own = np.arange(case.hosts).repeat(case.processes)[:, None]
    other = random.integers(0, case.hosts - 1, shape)
    other += other >= own
    destinations = other * case.processes + random.integers(0, case.processes, shape)
    return Traffic(arrivals, sizes, destinations, case.messages * message_gap_us(case))
