"""One call of `nezha bench train`: what runs where, and the document that comes out."""

from __future__ import annotations

import importlib.util
import os
import sys
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Dict, List, Optional, Sequence

from ..cli.errors import BenchError
from .formulas import median
from .lab_runner import BenchLab
from ..cli.progress import Step as Announce
from .training_profile import profile
from .training_spec import Schedule, Step, TrainSpec

MODELS = ("alexnet", "vgg11", "resnet50", "resnet101", "resnet152")
_PATIENCE_SECONDS = 1800.0  # a real step of a large model, on a core that ranks share
_RECORDED_STEPS = 2
_TURNS = 2  # launches of each form with --flat


@dataclass
class Request:
    """What was asked for on the command line. rails: one lab each."""

    model: str
    batch: int = 32
    nodes: int = 4
    ranks_per_node: int = 1
    flat: bool = False  # also as if every rank were a host
    rails: List[List[str]] = field(default_factory=lambda: [["1gbit", "1gbit"],
                                                            ["1gbit", "500mbit"]])
    steps: int = 5
    replay: bool = False
    bucket_mb: Optional[float] = None  # None: DDP's default
    compute_scale: float = 1.0
    schedule: Optional[Path] = None
    threads: Optional[int] = None
    gloo: bool = True
    lab_options: Dict[str, Any] = field(default_factory=dict)

    @property
    def ranks(self) -> int:
        """Of the world that trains."""
        return self.nodes * self.ranks_per_node

    def __post_init__(self) -> None:
        """Raises BenchError for what cannot be run."""
        if self.flat and self.ranks_per_node == 1:
            raise BenchError("--flat compares with ranks that share hosts: give --ranks-per-node 2 or "
                             "more")
        if self.model not in MODELS:
            raise BenchError(f"--model {self.model}: one of {', '.join(MODELS)}")
        if not 0 <= self.compute_scale <= 1000:
            raise BenchError(f"--compute-scale {self.compute_scale:g}: a factor from 0 to 1000")
        if self.compute_scale != 1 and not self.replay:
            raise BenchError("--compute-scale changes recorded computation: it needs --replay")
        if self.threads is not None and self.replay and self.schedule and self.schedule.exists():
            raise BenchError(f"--threads is of computation, and a replay of {self.schedule} has none: "
                             "leave it out, or record another schedule")
        if self.bucket_mb is not None and self.bucket_mb <= 0:
            raise BenchError(f"--bucket-mb {self.bucket_mb:g}: more than 0")
        if importlib.util.find_spec("torch") is None:
            raise BenchError("training needs torch, which is not installed here: pip install torch")


def run(request: Request, announce: Announce) -> Dict[str, Any]:
    """Measures every configuration; the document that --json writes. Raises BenchError, LabError."""
    schedule: Optional[Schedule] = None
    entries: List[Dict[str, Any]] = []
    facts: Dict[str, Any] = {}
    for number, rails in enumerate(request.rails):
        with BenchLab(request.nodes, rails, ranks_per_node=request.ranks_per_node,
                      **request.lab_options) as lab:
            if schedule is None:
                schedule = _schedule(request, lab, announce)
                facts = lab.facts()
            used = schedule.scaled(request.compute_scale)
            used.save(lab.scratch / "schedule.json")
            if number == 0 and request.gloo:
                entries.append(_measure(request, lab, announce, rails, "gloo", lab.fastest()))
            if number == 0 and len(rails) > 1:
                entries.append(_measure(request, lab, announce, rails, "nezha", lab.fastest()))
            entries += _measure_all(request, lab, announce, rails)
    assert schedule is not None
    return _document(request, schedule, entries, facts)


def _schedule(request: Request, lab: BenchLab, announce: Announce) -> Schedule:
    """The step of the model: read where --schedule names a file that exists, else recorded."""
    if request.schedule is not None and request.schedule.exists():
        found = Schedule.load(request.schedule)
        asked = (request.model, request.batch, request.bucket_mb)
        if (found.model, found.batch, found.bucket_mb) != asked:
            raise BenchError(f"{request.schedule} is of {found.model}, batch {found.batch}, bucket_mb "
                             f"{found.bucket_mb or 'default'}: remove it, or ask for the same")
        return found
    path = request.schedule or lab.scratch / "recorded.json"
    spec = TrainSpec("record", request.model, request.batch, _RECORDED_STEPS,
                     bucket_mb=request.bucket_mb, threads=request.threads or os.cpu_count() or 1,
                     schedule=str(path.absolute()))
    _launch(lab, spec, [{}], announce, f"record {request.model}")
    return Schedule.load(path)


def _measure_all(request: Request, lab: BenchLab, announce: Announce,
                 rails: List[str]) -> List[Dict[str, Any]]:
    """Nezha on all rails; with --flat in both forms, launched in turn."""
    if not request.flat:
        return [_measure(request, lab, announce, rails, "nezha", None)]
    steps: Dict[str, List[Step]] = {"by host": [], "flat": []}
    for _ in range(_TURNS):
        for form, found in steps.items():
            found += _steps(request, lab, announce, rails, "nezha", None, form)
    return [_entry(request, rails, "nezha", None, found, form) for form, found in steps.items()]


def _measure(request: Request, lab: BenchLab, announce: Announce, rails: List[str], backend: str,
             rail: Optional[int]) -> Dict[str, Any]:
    """One configuration: `rail` only, or all of them where None. Raises BenchError."""
    return _entry(request, rails, backend, rail, _steps(request, lab, announce, rails, backend, rail))


def _entry(request: Request, rails: List[str], backend: str, rail: Optional[int], steps: List[Step],
           form: str = "") -> Dict[str, Any]:
    used = rails if rail is None else [rails[rail]]
    return {"name": _name(rails, backend, rail, form), "backend": backend, "rails": used,
            "one_rail": rail, "form": form, **summary(steps, request.ranks * request.batch)}


def _name(rails: List[str], backend: str, rail: Optional[int], form: str) -> str:
    used = rails if rail is None else [rails[rail]]
    return f"{backend}, {' + '.join(used)}" + (f", {form}" if form else "")


def _steps(request: Request, lab: BenchLab, announce: Announce, rails: List[str], backend: str,
           rail: Optional[int], form: str = "") -> List[Step]:
    """One launch. Raises BenchError."""
    spec = TrainSpec("replay" if request.replay else "ddp", request.model, request.batch,
                     request.steps, backend, request.bucket_mb, _threads(request),
                     str(lab.scratch / "schedule.json"))
    environments = []
    for rank in range(request.ranks):
        environment: Dict[str, str] = {}
        if backend == "gloo":
            device = lab.devices()[rail or 0][0]
            spec.devices = [device]
            environment["GLOO_SOCKET_IFNAME"] = device
        elif rail is not None:
            environment["NEZHA_RAILS"] = lab.rail_filter(lab.lab.node_of(rank), rail)
        if form == "flat":
            environment["NEZHA_HIERARCHY"] = "off"
        environments.append(environment)
    return _launch(lab, spec, environments, announce, _name(rails, backend, rail, form))


def _threads(request: Request) -> int:
    """Of one rank, where all ranks compute on this machine's cores at once."""
    return request.threads or max(1, (os.cpu_count() or 1) // request.ranks)


def _launch(lab: BenchLab, spec: TrainSpec, environments: List[Dict[str, str]],
            announce: Announce, what: str) -> List[Step]:
    """Runs `spec` on the first ranks, as many as there are environments. Raises BenchError."""
    path = lab.scratch / f"train-{what.replace('/', '-')}.json"
    spec.save(path)
    command = [sys.executable, "-m", "nezha_tools.bench.training_worker", str(path)]
    threads = {"OMP_NUM_THREADS": str(spec.threads)}
    steps = lab.launch(command, [{**each, **threads} for each in environments],
                       announce(what, spec.steps), _PATIENCE_SECONDS, Step.parse)
    if len(steps) != spec.steps:
        raise BenchError(f"{what}: {len(steps)} of {spec.steps} steps were reported")
    return steps


def summary(steps: Sequence[Step], images: int) -> Dict[str, Any]:
    """Medians over `steps` of `images` images each; shares of a step's time, and of the bytes."""
    seconds = median([step.seconds for step in steps])
    active = median([step.active_s for step in steps])
    waiting = median([step.waiting_s for step in steps])
    sent: Dict[str, int] = {}
    for step in steps:
        for name, count in step.sent.items():
            sent[name] = sent.get(name, 0) + count
    total = sum(sent.values())
    return {
        "images_per_s": images / seconds, "step_s": seconds,
        "communication_s": active, "communication_share": active / seconds,
        "waiting_s": waiting, "waiting_share": waiting / seconds,
        "wrong": sum(step.wrong for step in steps),
        "algorithms": sorted({name for step in steps for name in step.algorithms}),
        "rails_share": {name: count / total if total else 0.0 for name, count in sent.items()},
        "steps": [asdict(step) for step in steps]}


def compare(entries: List[Dict[str, Any]]) -> None:
    """Adds to each entry its ratios to the first: `speedup` and `communication_ratio`."""
    first = entries[0]
    for entry in entries:
        entry["speedup"] = entry["images_per_s"] / first["images_per_s"]
        base = first["communication_s"]
        entry["communication_ratio"] = entry["communication_s"] / base if base else None


def _document(request: Request, schedule: Schedule, entries: List[Dict[str, Any]],
              facts: Dict[str, Any]) -> Dict[str, Any]:
    compare(entries)
    config = {
        "mode": "replay" if request.replay else "ddp", "model": request.model,
        "batch": request.batch, "nodes": request.nodes, "ranks": request.ranks, "rails": request.rails,
        "steps": request.steps, "bucket_mb": request.bucket_mb,
        "compute_scale": request.compute_scale, "threads": _threads(request), "lab": facts,
        "cpus": os.cpu_count()}
    return {"config": config, "schedule": asdict(schedule),
            "profile": profile(schedule.buckets, schedule.tensors), "configurations": entries}
