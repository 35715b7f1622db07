"""What every section is built from, and the sentence that says how this cluster differs from the
paper's."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Dict, List, Mapping

from .combinations import Combination
from .curves import Curves
from .jobs import Settings


@dataclass(frozen=True)
class Context:
    """results: by Job.key. machine: as run._machine() has it. nodes: those asked for, ascending.
    combinations: those that this build can measure."""

    results: Mapping[str, Dict[str, Any]]
    settings: Settings
    machine: Mapping[str, Any]
    nodes: List[int]
    combinations: List[Combination]

    @property
    def curves(self) -> Curves:
        """Times and shares of the numbers of nodes asked for."""
        return Curves(self.results, self.nodes)

    @property
    def differs(self) -> str:
        """Processors, adapters, aggregation: one sentence."""
        cores = self.machine["cores"]
        return (f"All nodes share {cores} processor{'' if cores == 1 else 's'} of one machine "
                f"({self.machine['processor']}), where the paper has a host for each; every rail is "
                f"shaped to {rate_text(self.settings.mbits)}, where the paper's adapters differ (100, "
                "128 and 200 Gbit/s); RDMA is libfabric's provider in software, and a program aggregates "
                "instead of switches.")


def rate_text(mbits: int) -> str:
    """`500 Mbit/s`, `1 Gbit/s`."""
    return f"{mbits / 1000:g} Gbit/s" if mbits >= 1000 else f"{mbits} Mbit/s"


def time_text(microseconds: float) -> str:
    """`41 us`, `6.65 ms`, `1.2 s`: three digits at least."""
    for unit, scale in (("s", 1e6), ("ms", 1e3)):
        if microseconds >= scale:
            return f"{microseconds / scale:.3g} {unit}"
    return f"{microseconds:.3g} us"
