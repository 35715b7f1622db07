"""The published numbers in data/: read once, looked up by name."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from functools import lru_cache
from importlib import resources
from typing import Any, Dict, List, Optional

from nezha_tools.cli.validation import refused


@dataclass(frozen=True)
class Accelerator:
    """One accelerator of a node. Rates: bytes per second, one direction, as advertised.

    peer: what one pair reaches; None where nobody says. links: to how many others it is cabled, or
    how many links lead into the switch. bf16_tflops: dense; None where it has no bfloat16. memory:
    bytes.
    """

    name: str
    link: str
    lane: float
    lanes: int
    links: int
    all_to_all: float
    peer: Optional[float]
    switched: bool
    bf16_tflops: Optional[float]
    memory: float
    says: Dict[str, float] = field(hash=False)
    why: str

    def rate_among(self, group: int) -> float:
        """Bytes per second that one of `group` accelerators of a node can send to the others.

        Without a switch a pair has its own links only, so a group smaller than the node leaves the
        others idle.
        """
        if self.switched or self.peer is None:
            return self.all_to_all
        return min(self.all_to_all, self.peer * max(1, group - 1))


@dataclass(frozen=True)
class Fabric:
    """What usually connects nodes. nic: bytes per second of one, one direction, as advertised."""

    name: str
    nics: int
    nic: float
    note: str

    @property
    def rate(self) -> float:
        """Bytes per second of all NICs of a node."""
        return self.nics * self.nic


@lru_cache(maxsize=None)
def data(name: str) -> Dict[str, Any]:
    """The file data/`name`.json."""
    text = (resources.files("nezha_study.plan") / "data" / f"{name}.json").read_text(encoding="utf-8")
    return dict(json.loads(text))


def accelerators() -> List[Accelerator]:
    """All known accelerators, the fastest links first."""
    return [Accelerator(
        row["accelerator"], row["link"], row["lane_gb"] * 1e9, row["lanes"], row["links"],
        row["all_to_all_gb"] * 1e9, row["peer_gb"] * 1e9 if row["peer_gb"] else None, row["switched"],
        row["bf16_tflops"], row["memory_gb"] * 1e9, row.get("says", {}), row.get("why", ""))
        for row in data("intra_node")["accelerators"]]


def fabrics() -> List[Fabric]:
    """All known networks between nodes."""
    return [Fabric(row["fabric"], row["nics"], row["nic_gbps"] * 1e9 / 8, row["note"])
            for row in data("inter_node")["fabrics"]]


def accelerator(name: str) -> Accelerator:
    """The accelerator of that name, in any case of letters. Raises PlanError that lists the names."""
    for each in accelerators():
        if each.name.lower() == str(name).strip().lower():
            return each
    raise refused("accelerator", name, "one of " + ", ".join(each.name for each in accelerators()))


def assumption(name: str) -> float:
    """A number that is assumed where nobody gives another; data/assumptions.json names its source."""
    return float(data("assumptions")[name]["value"])


def practical(given: Optional[float] = None) -> float:
    """The part of an advertised rate that a program reaches: `given`, or the 80 % rule."""
    return assumption("practical") if given is None else given
