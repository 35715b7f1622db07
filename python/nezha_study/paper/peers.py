"""Version 2's comparison: Nezha, Gloo, and Gloo over kernel MPTCP, in one lab of two equal TCP rails."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Dict, List, Sequence

from nezha_tools.bench.lab_runner import BenchLab
from nezha_tools.bench.libraries import Runner, find_peers
from nezha_tools.bench.libraries.settings import words
from nezha_tools.bench.spec import BenchSpec, Sample
from nezha_tools.cli.errors import BenchError
from nezha_tools.lab.shaping import EXACT
from .combinations import Combination, by_key
from .jobs import Settings, operation_s
from .own_job import Advance, OwnJob, usual_nodes
from .wrong import refuse_wrong

KIND = "peers"
NEZHA, GLOO, MPTCP = "nezha", "gloo", "gloo-mptcp"
SIZES = (1 << 10, 64 << 10, 1 << 20, 16 << 20)
LAUNCHES = 3  # of each library, in turns; the median of their times counts
_RAILS = {NEZHA: 2, GLOO: 1, MPTCP: 2}  # that carry an operation
_WARM = {NEZHA: 16, GLOO: 2, MPTCP: 2}  # operations before; Nezha tries every way
_FEWEST = 5
_START_S, _TORCH_S, _SIZE_S = 8.0, 10.0, 0.5


@dataclass(frozen=True)
class PeersJob(OwnJob):
    """All libraries on one number of nodes."""

    @property
    def title(self) -> str:
        """For people."""
        return f"{self.combination.name}, {self.nodes} nodes, Gloo and MPTCP beside"

    def sizes(self, settings: Settings) -> List[int]:
        """Short, middle and large ones."""
        return [size for size in SIZES if size <= settings.largest] or [SIZES[0]]

    def records(self, settings: Settings) -> int:
        """A sample for each size, library and launch."""
        return LAUNCHES * len(_RAILS) * len(self.sizes(settings))

    def estimate(self, settings: Settings) -> float:
        """Seconds that it takes where the wires are the limit."""
        seconds = 2 * _TORCH_S
        for library, rails in _RAILS.items():
            for size in self.sizes(settings):
                operation = operation_s(self.nodes, rails, size, settings)
                seconds += _SIZE_S + (_WARM[library] + 1) * operation + max(
                    settings.seconds, _FEWEST * operation)
        return _START_S + LAUNCHES * seconds

    def measure(self, settings: Settings, advance: Advance) -> Dict[str, Any]:
        """rows: by library; missing: why a library has none."""
        found, missing = find_peers([GLOO, MPTCP], None)
        launches: Dict[str, List[List[Sample]]] = {NEZHA: [], **{name: [] for name in found}}
        # One way of shaping for all sizes, so that a library starts once in each turn.
        with BenchLab(self.nodes, self.combination.rails(settings.mbits), shaping=EXACT) as lab:
            spec = BenchSpec(self.sizes(settings), seconds=settings.seconds, rates=lab.rates())
            runners: Dict[str, Runner] = {NEZHA: BenchLab.run, **found}
            for name in LAUNCHES * list(runners):
                own = replace(spec, warmup=_WARM[name])
                try:
                    samples = _launched(lab, runners[name], own, advance)
                except BenchError as error:
                    if name == NEZHA:
                        raise
                    missing[name] = str(error)
                    continue
                self._check(name, samples)
                launches[name].append(samples)
            rows = {name: lab.rows(spec, each, name) for name, each in launches.items() if each}
            return {"rows": rows, "missing": missing, "lab": lab.facts()}

    def _check(self, library: str, samples: Sequence[Sample]) -> None:
        for sample in samples:
            if library == NEZHA:
                refuse_wrong(self, sample.size, sample.wrong)
            elif sample.wrong:
                raise BenchError(f"{sample.wrong} wrong elements of {library} ({words(library)}) over "
                                 f"{self.title}: nothing of this measurement is kept")


def _launched(lab: BenchLab, run: Runner, spec: BenchSpec, advance: Advance) -> List[Sample]:
    return lab.shaped(spec, lambda part: run(lab, part, advance))


def jobs(combinations: Sequence[Combination], nodes: Sequence[int]) -> List[PeersJob]:
    """Two equal TCP rails."""
    pair = by_key("TT")
    return [PeersJob(KIND, usual_nodes(nodes), pair)] if pair in combinations else []
