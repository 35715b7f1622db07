"""Fig. 6's measurement: what the kernel counts at the ports of a node while all_reduces run."""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass
from typing import Any, Dict, List, Sequence

from nezha_tools.bench.lab_runner import BenchLab
from .combinations import Combination, by_key
from .jobs import Settings, operation_s
from .own_job import Advance, OwnJob, large, usual_nodes
from .ports_worker import Ports, PortsSpec
from .wrong import refuse_wrong

KIND = "ports"
KEYS = ("T", "TT")  # the paper's combinations in this figure
_WINDOWS = 40  # in which rates are told; as long as _WINDOW times Settings.seconds
_WINDOW = 0.2
_FEWEST = 5  # operations
_WARM = {"T": 2, "TT": 16}  # operations before: with two rails every way has then been tried
_START_S = 8.0  # of a lab and its ranks


@dataclass(frozen=True)
class PortsJob(OwnJob):
    """One combination on one number of nodes."""

    @property
    def title(self) -> str:
        """For people."""
        return f"{self.combination.name}, {self.nodes} nodes, rates of ports"

    def sizes(self, settings: Settings) -> List[int]:
        """The largest of the study."""
        return large(settings, settings.largest)

    def estimate(self, settings: Settings) -> float:
        """Seconds that it takes where the wires are the limit."""
        return _START_S + (self._warm + 1 + self._operations(settings)) * self._operation_s(settings)

    def measure(self, settings: Settings, advance: Advance) -> Dict[str, Any]:
        """Times in seconds and bytes sent since then, of each port of node 0."""
        size = self.sizes(settings)[0]
        with BenchLab(self.nodes, self.combination.rails(settings.mbits)) as lab:
            devices = [device for device, _, _ in lab.devices()]
            spec = PortsSpec(size, self._warm, self._operations(settings),
                             _WINDOW * settings.seconds, devices)
            path = lab.scratch / "ports.json"
            spec.save(path)
            found: List[Ports] = lab.launch(
                [sys.executable, "-m", "nezha_study.paper.ports_worker", str(path)],
                [{} for _ in range(lab.lab.ranks)], advance, parse=Ports.parse)
            refuse_wrong(self, size, found[0].wrong)
            return {"size": size, "operations": spec.operations, "devices": devices,
                    "times_s": found[0].times_s, "sent": found[0].sent, "lab": lab.facts()}

    @property
    def _warm(self) -> int:
        return _WARM[self.combination.key]

    def _operation_s(self, settings: Settings) -> float:
        return operation_s(self.nodes, len(self.combination.key), self.sizes(settings)[0], settings)

    def _operations(self, settings: Settings) -> int:
        wanted = _WINDOWS * _WINDOW * settings.seconds / self._operation_s(settings)
        return max(_FEWEST, math.ceil(wanted))


def jobs(combinations: Sequence[Combination], nodes: Sequence[int]) -> List[PortsJob]:
    """One rail, and two equal ones."""
    return [PortsJob(KIND, usual_nodes(nodes), each) for each in map(by_key, KEYS)
            if each in combinations]
