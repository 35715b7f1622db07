"""Builds a lab and runs specs in it: a process for each rank, samples back over rank 0's output.

Owner: the process that prints. Every process started here ends here, whatever happens.
"""

from __future__ import annotations

import signal
import subprocess
import sys
import tempfile
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence, Tuple, Type

from nezha import launcher
from ..lab.ranks import in_node
from ..lab import Capacity, Lab
from ..lab._process import rail_filter
from .cores import allowed, children_on, processors_of
from ..cli.errors import BenchError
from .shaping_choice import Measured, choose, in_parts, note
from .rows import Row, make_rows
from .spec import BenchSpec, Sample
from .lab_facts import lab_facts, lab_rates

Progress = Callable[[Any], None]  # called with each record that rank 0 hands over
Parse = Callable[[Sequence[bytes]], List[Any]]  # the records among lines of rank 0's output
_GRACE_SECONDS = 6.0  # for the survivors of a failed rank to say what they saw
_PATIENCE_SECONDS = 300.0  # no line for so long: something hangs


class BenchLab:
    """A lab in which specs are run one after the other. A context manager."""

    def __init__(self, nodes: int, rails: Sequence[str], **lab_options: Any) -> None:
        """lab_options: of Lab, such as ranks_per_node; without `shaping` each size is measured as
        shaping_choice.choose() says."""
        self._fixed: Optional[str] = lab_options.get("shaping")
        self.lab = Lab(nodes=nodes, rails=list(rails), **lab_options)
        self.nodes = nodes
        self._scratch = tempfile.TemporaryDirectory(prefix="nezha-bench-")
        self._runs = 0

    def __enter__(self) -> "BenchLab":
        self.lab.up()
        return self

    def __exit__(
        self,
        kind: Optional[Type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        self.lab.down()
        self._scratch.cleanup()

    @property
    def scratch(self) -> Path:
        """A directory of this lab's own, gone with it."""
        return Path(self._scratch.name)

    def devices(self) -> List[Tuple[str, str, Optional[float]]]:
        """(device, address, raw bytes per second or None) of node 0's rails, in rail order."""
        ports = self.lab.status()["nodes"][0]["ports"]
        return [(port["device"], port["address"].partition("/")[0],
                 port["rate_bps"] / 8 if port["rate_bps"] else None) for port in ports]

    def fastest(self) -> int:
        """The number of the fastest rail, the first of equals; an unshaped one counts as fastest."""
        rates = [rate if rate is not None else float("inf") for _, _, rate in self.devices()]
        return rates.index(max(rates))

    def rates(self) -> Dict[str, float]:
        """Raw bytes per second by device; only the shaped ones."""
        return lab_rates(self.lab.name)

    def facts(self) -> Dict[str, Any]:
        """What a result must state about its lab."""
        return lab_facts(self.lab.name)

    def run(
        self, spec: BenchSpec, progress: Optional[Progress] = None,
        one_rail: Optional[int] = None, apart: bool = True,
    ) -> List[Sample]:
        """Runs `spec` on all ranks, on one rail only where asked; apart: as launch(). BenchError."""
        return self.shaped(spec, lambda part: self._run(part, progress, one_rail, apart))

    def measured(self, spec: BenchSpec) -> List[Measured]:
        """How each size of `spec` is measured here; nothing where nothing is shaped."""
        lab = self.lab.state
        if lab.mode == "loopback" or not any(lab.rail_rates):
            return []
        # Between two pieces a bucket fills.
        pieces = replace(spec, sizes=[size // spec.pieces for size in spec.sizes])
        return choose(pieces, self.nodes, [port.rate for port in lab.nodes[0].ports], self._fixed,
                      lab.burst)

    def capacities(self, spec: BenchSpec) -> Dict[str, Capacity]:
        """What this machine can shape in each of the ways that `spec` is measured in; a second each."""
        found = {}
        for kind in sorted({each.shaping for each in self.measured(spec)}):
            self.lab.set_shaping(kind)
            capacity = self.lab.capacity()
            if capacity is not None:
                found[kind] = capacity
        return found

    def shaped(self, spec: BenchSpec,
               run: Callable[[BenchSpec], List[Sample]]) -> List[Sample]:
        """run() for the sizes of `spec` that are measured in one way, in the lab shaped so; the samples
        of all sizes."""
        def part(kind: str, sizes: List[int]) -> List[Sample]:
            self.lab.set_shaping(kind)
            return run(replace(spec, sizes=sizes))

        measured = self.measured(spec)
        return in_parts(spec.sizes, measured, part) if measured else run(spec)

    def rows(self, spec: BenchSpec, launches: Sequence[Sequence[Sample]],
             library: str = "nezha") -> List[Row]:
        """rows.make_rows(), each with how its size was measured here."""
        rows = make_rows(spec, launches, library)
        note(rows, self.measured(spec))
        return rows

    def _run(self, spec: BenchSpec, progress: Optional[Progress],
             one_rail: Optional[int], apart: bool) -> List[Sample]:
        spec_path = self.write_spec(spec)
        command = [sys.executable, "-m", "nezha_tools.bench.collective_worker", str(spec_path)]
        environments: List[Dict[str, str]] = [{} for _ in range(self.lab.ranks)]
        if one_rail is not None:
            environments = self.only(one_rail)
        return self.launch(command, environments, progress, patience_for(spec),
                           apart=apart and spec.cores is None)

    def only(self, rail: int) -> List[Dict[str, str]]:
        """Environments of all ranks that leave them rail `rail`. Raises BenchError."""
        filters = [self.rail_filter(self.lab.node_of(rank), rail) for rank in range(self.lab.ranks)]
        more = {} if self.lab.state.rail_kinds[rail] == "agg" else {"NEZHA_AGGREGATOR": ""}
        return [{"NEZHA_RAILS": each, **more} for each in filters]

    def rail_filter(self, node: int, rail: int) -> str:
        """What NEZHA_RAILS must be on `node` to leave only rail `rail`. Raises BenchError."""
        ports = self.lab.status()["nodes"][node]["ports"]
        if not 0 <= rail < len(ports):
            raise BenchError(f"rail {rail}: the lab has rails 0 to {len(ports) - 1}")
        return rail_filter(self.lab.state, node, rail)

    def processors(self, node: int) -> List[int]:
        """Those that `node` keeps to."""
        return processors_of(node, self.nodes, allowed())

    def write_spec(self, spec: BenchSpec) -> Path:
        """Saves `spec` where the ranks can read it."""
        self._runs += 1
        path = self.scratch / f"spec-{self._runs}.json"
        spec.save(path)
        return path

    def launch(
        self, command: Sequence[str], environments: Sequence[Mapping[str, str]],
        progress: Optional[Progress] = None, patience: float = _PATIENCE_SECONDS,
        parse: Optional[Parse] = None, apart: bool = True,
    ) -> List[Any]:
        """Starts `command` as the first ranks, as many as there are environments, each of which is added
        to its rank's own, and collects what rank 0 emits.

        parse: what its lines hold, samples by default. apart: each node keeps to its part of this
        machine's processors. Raises BenchError when a process fails, or
        when no line comes for `patience` seconds.
        """
        records: List[Any] = []

        def take(lines: List[bytes]) -> None:
            for record in (parse or Sample.parse)(lines):
                records.append(record)
                if progress is not None:
                    progress(record)

        ranks = [self._rank(rank, command, environment, apart)
                 for rank, environment in enumerate(environments)]
        outcome = launcher.listen(ranks, take, grace_s=_GRACE_SECONDS, patience_s=patience)
        if outcome.interrupted_by is not None:
            signal.raise_signal(signal.Signals[outcome.interrupted_by])
            raise BenchError(f"interrupted by {outcome.interrupted_by}")
        if outcome.first_failure is not None:
            words = "\n".join(outcome.first_failure.last_lines) or "(it wrote nothing)"
            raise BenchError(f"of {len(ranks)} processes, {outcome.first_failure}:\n{words[-2000:]}")
        return records

    def _rank(self, rank: int, command: Sequence[str], environment: Mapping[str, str],
              apart: bool) -> launcher.Rank:
        node = self.lab.node_of(rank)
        placed = in_node(self.lab, rank, node, command,
                         {**self.lab.rank_env(rank), **environment})

        def start(**options: Any) -> "subprocess.Popen[bytes]":
            with children_on(self.processors(node) if apart else allowed()):
                return placed.start(**options)

        return replace(placed, start=start)


def patience_for(spec: BenchSpec) -> float:
    """Seconds without a sample after which a run is taken to hang."""
    operations = (spec.iterations or 0) + (spec.warmup or 0) + spec.checks
    return _PATIENCE_SECONDS + 10.0 * operations  # the user may ask for many, on slow rails
