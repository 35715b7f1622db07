"""The paper's combinations of networks, and the rails of a lab that stand for them.

A letter is a network: T is TCP; R is RDMA (the paper's GLEX), here through libfabric's provider in
software; A is aggregation in the network (the paper's SHARP), here a rail with an aggregation node, which
is a program.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Dict, List, Sequence

_NAMES = {"T": "TCP", "R": "RDMA", "A": "aggregation"}
_KINDS = {"T": "", "R": "ofi:", "A": "agg:"}
MODULES = {"R": "ofi", "A": "aggregation"}  # what a job needs for a letter


@dataclass(frozen=True)
class Combination:
    """Networks that carry one operation together. key: their letters, as `TR`."""

    key: str

    @property
    def name(self) -> str:
        """As a reader wants it: `TCP + RDMA`."""
        return " + ".join(_NAMES[letter] for letter in self.key)

    @property
    def is_alone(self) -> bool:
        """Whether it is one network."""
        return len(self.key) == 1

    @property
    def config(self) -> Dict[str, str]:
        """Nezha's configuration. Alone, aggregation means that everything goes through the node. Beside
        other networks its wire leads to the node only: else TCP among ranks would be one network more."""
        if self.key == "A":
            return {"aggregator_share": "1"}
        if "A" not in self.key:
            return {}
        names = {letter: f"eth{place}" for place, letter in enumerate(self.key)}
        # "=" holds for all names after it that have no kind, so TCP comes first.
        tcp, rdma = names.get("T"), names.get("R")
        return {"rails": ",".join([f"={tcp}"] * bool(tcp) + [f"ofi:{rdma}"] * bool(rdma))}

    def rails(self, mbits: int) -> List[str]:
        """The lab's rails in the order of the letters, each of `mbits` Mbit/s: `["500mbit",
        "ofi:500mbit"]`."""
        return [f"{_KINDS[letter]}{mbits}mbit" for letter in self.key]


ALL = tuple(map(Combination, ("T", "R", "A", "TT", "TR", "TA", "RA", "TRA")))
PAIRS = tuple(map(Combination, ("RA", "TR", "TA")))  # of unequal networks: Table I and its like


def by_key(key: str) -> Combination:
    """The combination with these letters."""
    return next(each for each in ALL if each.key == key)


def possible(modules: Sequence[str]) -> List[Combination]:
    """Those that a build with these modules can use."""
    return [each for each in ALL
            if all(MODULES[letter] in modules for letter in each.key if letter in MODULES)]
