"""Builds a lab and runs specs in it: a process for each rank, samples back over rank 0's output.

Owner: the process that prints. Every process started here ends here, whatever happens.
"""

from __future__ import annotations

import os
import selectors
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Callable, Dict, List, Mapping, Optional, Sequence, Tuple, Type

from ..lab import Capacity, Lab
from ..lab._process import rail_filter
from .cores import allowed, children_on, processors_of
from .._command_errors import BenchError
from .shaping_choice import Measured, choose, in_parts, note
from .rows import Row, make_rows
from .spec import BenchSpec, Sample
from .lab_facts import lab_facts, lab_rates

Progress = Callable[[Any], None]  # called with each record that rank 0 hands over
Parse = Callable[[Sequence[bytes]], List[Any]]  # the records among lines of rank 0's output
_GRACE_SECONDS = 6.0  # for the survivors of a failed rank to say what they saw
_PATIENCE_SECONDS = 300.0  # no sample for so long: something hangs


class BenchLab:
    """A lab in which specs are run one after the other. A context manager."""

    def __init__(self, nodes: int, rails: Sequence[str], **lab_options: Any) -> None:
        """lab_options: of Lab, such as ranks_per_node; without `shaping` each size is measured as
        honesty.choose() says."""
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
        return choose(spec, self.nodes, [port.rate for port in lab.nodes[0].ports], self._fixed,
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
        command = [sys.executable, "-m", "nezha._bench.collective_worker", str(spec_path)]
        ranks = range(self.lab.ranks)
        environments = [self.lab.rank_env(rank) for rank in ranks]
        if one_rail is not None:
            for rank, environment in enumerate(environments):
                environment["NEZHA_RAILS"] = self.rail_filter(self.lab.node_of(rank), one_rail)
                if self.lab.state.rail_kinds[one_rail] != "agg":
                    environment["NEZHA_AGGREGATOR"] = ""
        return self.launch([(self.lab.node_of(rank), command) for rank in ranks], environments, progress,
                           patience_for(spec), apart=apart and spec.cores is None)

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
        self,
        commands: Sequence[Tuple[int, Sequence[str]]],
        environments: Sequence[Mapping[str, str]],
        progress: Optional[Progress] = None, patience: float = _PATIENCE_SECONDS,
        parse: Optional[Parse] = None, apart: bool = True,
    ) -> List[Any]:
        """Starts the (node, command) pairs and collects what the first one emits.

        parse: what its lines hold, samples by default. apart: each node keeps to its part of this
        machine's processors. Raises BenchError when a process fails, or
        when no record comes for `patience` seconds.
        """
        processes: List["subprocess.Popen[Any]"] = []
        logs: List[IO[bytes]] = []
        try:
            for index, (node, command) in enumerate(commands):
                log = open(self.scratch / f"log-{self._runs}-{index}", "w+b")
                logs.append(log)
                with children_on(self.processors(node) if apart else allowed()):
                    processes.append(self.lab.popen(
                        node, command, env=environments[index], stderr=log,
                        stdout=subprocess.PIPE if index == 0 else log))
            records = _collect(processes, parse or Sample.parse, progress, patience)
            _check(processes, logs, self.nodes)
            return records
        finally:
            _end(processes)
            for log in logs:
                log.close()


def patience_for(spec: BenchSpec) -> float:
    """Seconds without a sample after which a run is taken to hang."""
    operations = (spec.iterations or 0) + (spec.warmup or 0) + spec.checks
    return _PATIENCE_SECONDS + 10.0 * operations  # the user may ask for many, on slow rails


def _collect(
    processes: Sequence["subprocess.Popen[Any]"], parse: Parse, progress: Optional[Progress],
    patience: float,
) -> List[Any]:
    """Reads the first process's output until it ends, another one fails, or all is silent."""
    records: List[Any] = []
    pending = b""
    last_heard = time.monotonic()
    failed_at: Optional[float] = None
    output = processes[0].stdout
    assert output is not None
    with selectors.DefaultSelector() as selector:
        selector.register(output, selectors.EVENT_READ)
        while True:
            if selector.select(timeout=0.2):
                data = os.read(output.fileno(), 1 << 20)
                if not data:
                    return records
                lines = (pending + data).split(b"\n")
                pending = lines.pop()
                fresh = parse(lines)
                if progress is not None:
                    for record in fresh:
                        progress(record)
                records += fresh
                last_heard = time.monotonic() if fresh else last_heard
            now = time.monotonic()
            if failed_at is None and any(process.poll() for process in processes):
                failed_at = now
            if failed_at is not None and now - failed_at > _GRACE_SECONDS:
                return records
            if now - last_heard > patience:
                raise BenchError(f"no result for {patience:.0f} s: gave up waiting")


def _check(
    processes: Sequence["subprocess.Popen[Any]"], logs: Sequence[IO[bytes]], nodes: int
) -> None:
    """Raises BenchError with the first failure's own words."""
    deadline = time.monotonic() + _GRACE_SECONDS
    codes: List[Optional[int]] = []
    for process in processes:
        try:
            codes.append(process.wait(timeout=max(0.0, deadline - time.monotonic())))
        except subprocess.TimeoutExpired:
            codes.append(None)
    bad = [index for index, code in enumerate(codes) if code != 0]
    if not bad:
        return
    first = next((index for index in bad if codes[index]), bad[0])
    logs[first].seek(0)
    tail = logs[first].read()[-2000:].decode(errors="replace").strip() or "(it wrote nothing)"
    what = _outcome(codes[first])
    raise BenchError(f"process {first} of {len(processes)} ({nodes} nodes) {what}:\n{tail}")


def _outcome(code: Optional[int]) -> str:
    if code is None:
        return "is still running"
    if code < 0:
        return f"was killed by {signal.Signals(-code).name}"
    return f"ended with status {code}"


def _end(processes: Sequence["subprocess.Popen[Any]"]) -> None:
    for process in processes:
        if process.poll() is None:
            process.terminate()
    deadline = time.monotonic() + 2.0
    for process in processes:
        try:
            process.wait(timeout=max(0.0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        if process.stdout is not None:
            process.stdout.close()
