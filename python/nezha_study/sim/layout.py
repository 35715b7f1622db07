"""Which ranks share a host: ranks follow each other, host after host (Hosts in src/schedule/hosts.h)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, List, Sequence

import numpy as np

from nezha_tools.cli.errors import PlanError
from nezha_tools.cli.validation import refused

RANKS_MAX = 1 << 18  # as the library answers questions about them
Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Layout:
    """counts: how many ranks each host has, 1 or more."""

    counts: Array

    @cached_property
    def hosts(self) -> int:
        """How many there are."""
        return int(self.counts.size)

    @cached_property
    def ranks(self) -> int:
        """Of all hosts."""
        return int(self.counts.sum())

    @cached_property
    def most(self) -> int:
        """Ranks of the host that has most."""
        return int(self.counts.max())

    @cached_property
    def first(self) -> Array:
        """By host, its first rank."""
        return np.cumsum(self.counts) - self.counts

    @cached_property
    def host_of(self) -> Array:
        """By rank."""
        return np.repeat(np.arange(self.hosts), self.counts)

    @property
    def is_single(self) -> bool:
        """Whether every rank has a host of its own."""
        return self.most == 1

    @property
    def is_even(self) -> bool:
        """Whether all hosts have as many."""
        return bool((self.counts == self.most).all())

    @property
    def is_mixed(self) -> bool:
        """Several hosts, and one with several ranks: where there are hierarchical schedules."""
        return 1 < self.hosts < self.ranks


def even(hosts: int, ranks: int = 1) -> Layout:
    """`ranks` ranks on every host."""
    return Layout(np.full(hosts, ranks))


def parse(text: str, hosts: Sequence[int]) -> List[Layout]:
    """For each count of hosts, `4` ranks on each of them; or `1,2,4` for hosts that differ. Raises
    PlanError."""
    allowed = "a whole number above 0, or one for each host, as in 1,2,4"
    numbers = text.split(",")
    if not all(number.isascii() and number.isdigit() and int(number) > 0 for number in numbers):
        raise refused("ranks-per-host", text, allowed)
    if len(numbers) > 1 and list(hosts) != [len(numbers)]:
        raise refused("ranks-per-host", text, f"one number, or {','.join(map(str, hosts))} of them, "
                      "one for each of --nodes")
    found = [Layout(np.array([int(each) for each in numbers])) if len(numbers) > 1
             else even(count, int(text)) for count in hosts]
    for layout in found:
        if layout.ranks > RANKS_MAX:
            raise PlanError(f"nodes {layout.hosts} with ranks-per-host {text}: {layout.ranks} ranks; "
                            f"they must be {RANKS_MAX} at most")
    return found
