"""Table III's measurement: what processors count of caches and memory while all_reduces run."""

from __future__ import annotations

import math
import sys
from dataclasses import astuple, dataclass
from typing import Any, Dict, List, Sequence

from nezha_tools.bench.lab_runner import BenchLab
from . import processor_counters
from .combinations import Combination, by_key
from .jobs import Settings, operation_s
from .memory_worker import Memory, MemorySpec
from .own_job import Advance, OwnJob, large, usual_nodes
from .wrong import refuse_wrong

KIND = "memory"
KEYS = ("T", "A", "TT", "TA", "TR", "RA", "R")  # the paper's columns
_MOST = 4 << 20  # bytes
_WARM, _FEWEST = 16, 5  # operations
_START_S = 6.0


@dataclass(frozen=True)
class MemoryJob(OwnJob):
    """One combination on one number of nodes."""

    @property
    def title(self) -> str:
        """For people."""
        return f"{self.combination.name}, {self.nodes} nodes, counters of processors"

    def sizes(self, settings: Settings) -> List[int]:
        """One large size."""
        return large(settings, _MOST)

    def estimate(self, settings: Settings) -> float:
        """Seconds that it takes where the wires are the limit."""
        return _START_S + (_WARM + 1 + self._operations(settings)) * self._operation_s(settings)

    def measure(self, settings: Settings, advance: Advance) -> Dict[str, Any]:
        """Counts of all ranks together."""
        size = self.sizes(settings)[0]
        with BenchLab(self.nodes, self.combination.rails(settings.mbits)) as lab:
            path = lab.scratch / "memory.json"
            MemorySpec(size, _WARM, self._operations(settings), self.combination.config,
                       [list(astuple(event)) for event in processor_counters.EVENTS]).save(path)
            found: List[Memory] = lab.launch(
                [sys.executable, "-m", "nezha_study.paper.memory_worker", str(path)],
                [{} for _ in range(lab.lab.ranks)], advance, parse=Memory.parse)
            refuse_wrong(self, size, found[0].wrong)
            return {"size": size, "counts": found[0].counts, "lab": lab.facts()}

    def _operation_s(self, settings: Settings) -> float:
        return operation_s(self.nodes, len(self.combination.key), self.sizes(settings)[0], settings)

    def _operations(self, settings: Settings) -> int:
        return max(_FEWEST, math.ceil(settings.seconds / self._operation_s(settings)))


def jobs(combinations: Sequence[Combination], nodes: Sequence[int]) -> List[MemoryJob]:
    """The paper's combinations; nothing where the machine counts none of the events."""
    if len(processor_counters.refusals()) == len(processor_counters.EVENTS):
        return []
    return [MemoryJob(KIND, usual_nodes(nodes), each) for each in map(by_key, KEYS)
            if each in combinations]
