"""Measuring: what this machine can shape, then every job that the folder does not have yet."""

from __future__ import annotations

import os
import platform
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Callable, Dict, List, Optional, Sequence

from nezha_tools.bench import aggregation_run
from nezha_tools.bench.cores import allowed
from nezha_tools.bench.fastest_rate import LADDER, fastest_rate
from nezha_tools.bench.lab_runner import BenchLab
from nezha_tools.bench.spec import BenchSpec, Sample
from nezha_tools.cli.errors import BenchError
from nezha_tools.cli.progress import Step
from nezha_tools.cli.sizes import format_size
from nezha_tools.lab import capabilities
from .combinations import MODULES, Combination, possible
from .jobs import Job, Settings
from .own_job import OwnJob
from .remaining import Remaining
from .store import Store
from .wrong import refuse_wrong

Advance = Callable[[Any], None]
Measure = Callable[[Job, Settings, Advance], Dict[str, Any]]
_RAILS_MAX = 3  # of a combination
_OPERATIONS = 1000  # of a cell of Table I, as in the paper, or as many as fit into this time
_CELL_SECONDS = 4.0  # times Settings.seconds
_LARGEST = (64 << 20, 16 << 20, 4 << 20)  # bytes: the paper's, and what is tried where they take too long
_FITS = 0.85  # of the time: estimates are of wires, and processors take some more


@dataclass
class Run:
    """What is to be measured, where, and in how many seconds at most. mbits: asked for; None: the fastest
    that this machine can shape. largest: bytes; None: as large as there is time for."""

    jobs: List[Job]
    folder: Path
    mbits: Optional[int] = None
    largest: Optional[int] = None
    seconds: float = 0.5
    limit_s: float = 3600.0
    fresh: bool = False
    nodes: int = 6  # of the largest lab


@dataclass
class Measured:
    """Everything that is known after a run. left_out: jobs for which there was no time."""

    settings: Settings
    machine: Dict[str, Any]
    results: Dict[str, Dict[str, Any]]
    left_out: List[Job]


@dataclass(frozen=True)
class _Said:
    """What a progress bar shows."""

    label: str


def usable() -> List[Combination]:
    """The combinations that this build has the modules for."""
    from nezha_tools.info.build import describe_build

    return possible(describe_build()["modules"])


def missing_modules(combinations: Sequence[Combination]) -> List[str]:
    """Modules whose lack leaves out some combination."""
    there = {letter for each in combinations for letter in each.key}
    return [module for letter, module in MODULES.items() if letter not in there]


def run(request: Run, step: Step, measure: Optional[Measure] = None) -> Measured:
    """Measures what the folder lacks, one job after the other, and keeps each at once.

    measure: of one job, measure_job() unless a test has its own. Raises BenchError, LabError; what was
    measured before stays in the folder.
    """
    started = time.monotonic()
    store = Store(request.folder)
    if request.fresh:
        store.forget(request.jobs)
    kept = store.machine()
    settings, machine = _settings(request, kept)
    if settings is None:
        settings, machine = _probe(request, step)
        store.save_machine({"settings": settings.as_dict(), "machine": machine})
    results = stored(request.jobs, request.folder, settings)
    waiting = [job for job in request.jobs if job.key not in results]
    if waiting and measure is None:
        _check_machine()
    left_out = _measure_all(request, waiting, settings, store, results, step, measure or measure_job,
                            started)
    return Measured(settings, machine, results, left_out)


def _settings(request: Run, kept: Optional[Dict[str, Any]]) -> Any:
    """(settings, machine) of the folder; (None, {}) where it has none. Raises BenchError where what was
    asked for is something else."""
    if kept is None:
        return None, {}
    settings = Settings(**kept["settings"])
    asked = Settings(request.mbits or settings.mbits, request.largest or settings.largest,
                     request.seconds)
    if asked != settings:
        raise BenchError(f"{request.folder} has measurements of rails of {settings.mbits} Mbit/s, of "
                         f"up to {format_size(settings.largest)} and {settings.seconds:g} s a size; "
                         "for others add --fresh, or name another --out")
    return settings, kept["machine"]


def _probe(request: Run, step: Step) -> Any:
    """The settings of a new folder, and what is to be said of this machine."""
    machine = _machine()
    mbits = request.mbits
    if mbits is None:
        _check_machine()
        done = step("what this machine can shape", len(LADDER))
        mbits, capacity = fastest_rate(request.nodes, _RAILS_MAX, done)
        machine["capacity"] = capacity.sentence() if capacity else None
    settings = _fitting(request, mbits)
    if request.largest is None and settings.largest < _LARGEST[0]:
        machine["sizes"] = (f"Sizes end at {format_size(settings.largest)}: with {mbits} Mbit/s, those "
                            f"up to {format_size(_LARGEST[0])} would take longer than the "
                            f"{request.limit_s / 60:g} minutes of --minutes.")
    return settings, machine


def _fitting(request: Run, mbits: int) -> Settings:
    """With the largest size that was asked for, or else that there is time for."""
    asked = _LARGEST if request.largest is None else (request.largest,)
    tried = [Settings(mbits, largest, request.seconds) for largest in asked]
    fitting = [each for each in tried
               if sum(job.estimate(each) for job in request.jobs) <= _FITS * request.limit_s]
    return [*fitting, tried[-1]][0]


def stored(jobs: Sequence[Job], folder: Path, settings: Settings) -> Dict[str, Dict[str, Any]]:
    """What the folder has of these jobs, by their keys. Raises BenchError as Store.load() does."""
    store = Store(folder)
    found = {job.key: store.load(job, settings) for job in jobs}
    return {key: result for key, result in found.items() if result is not None}


def stored_alike(jobs: Sequence[Job], folder: Path, settings: Settings) -> Dict[str, Dict[str, Any]]:
    """The same without what was measured with other settings. Raises BenchError for a broken file."""
    store = Store(folder)
    return stored([job for job in jobs if store.has(job, settings)], folder, settings)


def _check_machine() -> None:
    can = capabilities()
    if not can.namespaces:
        raise BenchError("the paper's networks need labs of network namespaces, whose rails are "
                         f"shaped, and this process can build none: {can.reason}")


def _measure_all(request: Run, waiting: List[Job], settings: Settings, store: Store,
                 results: Dict[str, Dict[str, Any]], step: Step, measure: Measure,
                 started: float) -> List[Job]:
    """Measures `waiting` into `results`; the jobs for which there was no time."""
    remaining = Remaining([job.estimate(settings) for job in waiting])
    advance = step("paper", sum(job.records(settings) for job in waiting)) if waiting else None
    for number, job in enumerate(waiting):
        begin = time.monotonic()
        if number and begin - started + remaining.next() > request.limit_s:
            return waiting[number:]
        _say(f"{job.title} ({number + 1} of {len(waiting)}), {remaining.text()}")

        def told(record: Any) -> None:
            if advance is not None:
                advance(_Said(f"{job.title}, {getattr(record, 'label', '')}, {remaining.text()}"))

        results[job.key] = measure(job, settings, told)
        taken = time.monotonic() - begin
        store.save(job, settings, taken, results[job.key])
        remaining.done(taken)
    return []


def _say(sentence: str) -> None:
    if not sys.stderr.isatty():  # a terminal has a bar
        print(f"nezha study paper: {sentence}", file=sys.stderr, flush=True)


def measure_job(job: Job, settings: Settings, advance: Advance) -> Dict[str, Any]:
    """Measures one job in a lab of its own. Its rows, or the cells of Table I, as JSON has them. Raises
    BenchError for a wrong element, which ends everything; LabError."""
    if isinstance(job, OwnJob):
        return job.measure(settings, advance)
    if job.kind == "shares":
        return _measure_shares(job, settings, advance)
    rows: List[Dict[str, Any]] = []
    with BenchLab(job.nodes, job.combination.rails(settings.mbits)) as lab:
        for sizes, warm in job.parts(settings):
            spec = BenchSpec(sizes=sizes, seconds=settings.seconds, warmup=warm or None,
                             rates=lab.rates(), config=job.combination.config)

            def checked(sample: Sample) -> None:
                refuse_wrong(job, sample.size, sample.wrong)
                advance(sample)

            samples = lab.run(spec, checked)
            rows += lab.rows(spec, [samples])
        return {"rows": rows, "lab": lab.facts()}


def _measure_shares(job: Job, settings: Settings, advance: Advance) -> Dict[str, Any]:
    request = aggregation_run.Request(
        job.sizes(settings), [job.nodes], job.combination.rails(settings.mbits),
        seconds=_CELL_SECONDS * settings.seconds, operations=_OPERATIONS)
    document = aggregation_run.run_table(request, lambda what, total: advance)
    for each in document["results"]:
        refuse_wrong(job, each["size"], each["wrong"])
    return {"cells": document["results"], "lab": document["config"]["lab"]}


def _machine() -> Dict[str, Any]:
    """Processor, processors that this process may use, memory in bytes, kernel."""
    return {"processor": _processor(), "cores": len(allowed()), "kernel": platform.release(),
            "memory": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")}


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.machine()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()
