"""Fig. 11's measurement: each network alone, while its ranks may use a part of the processors only."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Dict, List, Sequence

from nezha_tools.bench.cores import allowed
from nezha_tools.bench.lab_runner import BenchLab
from nezha_tools.bench.spec import BenchSpec, Sample
from . import cpu_share
from .combinations import Combination
from .jobs import Settings, operation_s
from .own_job import Advance, OwnJob, large
from .wrong import refuse_wrong

KIND = "cores"
SHARES = (1.0, 1 / 2, 1 / 4, 1 / 8, 1 / 16, 1 / 32)  # of the processors, for all ranks together
_MOST = 4 << 20  # bytes
_WARM, _FEWEST = 2, 5  # operations
_START_S = 8.0  # of a lab and its ranks
_SLOWER = 2  # times as long as where the wires are the limit, on average over the shares


@dataclass(frozen=True)
class CoresJob(OwnJob):
    """One network on one number of nodes."""

    @property
    def title(self) -> str:
        """For people."""
        return f"{self.combination.name}, {self.nodes} nodes, parts of the processors"

    def sizes(self, settings: Settings) -> List[int]:
        """One large size."""
        return large(settings, _MOST)

    def records(self, settings: Settings) -> int:
        """A sample for each share, and one before."""
        return 1 + len(SHARES)

    def estimate(self, settings: Settings) -> float:
        """Seconds, as far as they are known before."""
        operation = operation_s(self.nodes, 1, self.sizes(settings)[0], settings)
        timed = max(settings.seconds, _SLOWER * _FEWEST * operation)
        return _START_S + (1 + len(SHARES)) * (_SLOWER * (_WARM + 1) * operation + timed)

    def measure(self, settings: Settings, advance: Advance) -> Dict[str, Any]:
        """Times by the processors that all ranks together may use, ascending."""
        limits = [share * len(allowed()) for share in SHARES]
        with BenchLab(self.nodes, self.combination.rails(settings.mbits)) as lab, \
                cpu_share.Group() as group:
            # All in one launch, because processes start slowly under a limit. The first is for nothing.
            waiting = list(limits)
            spec = BenchSpec(self.sizes(settings) * (1 + len(limits)), seconds=settings.seconds,
                             warmup=_WARM, rates=lab.rates(), config=self.combination.config)

            def checked(sample: Sample) -> None:
                refuse_wrong(self, sample.size, sample.wrong)
                group.limit(waiting.pop(0) if waiting else limits[0])
                advance(sample)

            rows = lab.rows(spec, [lab.run(spec, checked)])[1:]
            cells = [{"processors": processors, "size": row["size"], "time_us": row["time_us"],
                      "cores_used": row["cores_used"]} for processors, row in zip(limits, rows)]
            return {"cells": cells[::-1], "lab": lab.facts()}


def jobs(combinations: Sequence[Combination], nodes: Sequence[int]) -> List[CoresJob]:
    """Each network alone on the fewest nodes, so that each node has the most; nothing where processor
    time cannot be limited."""
    if cpu_share.refusal() is not None:
        return []
    return [CoresJob(KIND, min(nodes), each) for each in combinations if each.is_alone]
