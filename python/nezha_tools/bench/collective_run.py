"""One call of `nezha bench`: what to run, running it, and the report that comes out.

Two ways in: `run_in_world` when this process is already a rank of a launched job, `run_in_lab` when
it is not and builds a lab of its own. Both end in a Report, which only the caller prints.
"""

from __future__ import annotations

import os
import platform
from dataclasses import dataclass, field, replace
from typing import Any, Callable, Dict, List, Optional, Tuple

from .cores import facts, ranks_here, restrict
from ..cli.errors import BenchError
from ..cli.progress import Step
from .shaping_choice import note
from .lab_runner import BenchLab
from .measure import measure
from .libraries import Runner, find_peers
from .libraries.best import beside, best
from .libraries.settings import words
from .rows import SCHEMA_NOTE, Row, gains, make_rows, spread, wire_check
from .spec import REDUCTIONS, BenchSpec, Sample
from .lab_facts import lab_facts, lab_rates, surrounding_lab

# Enough of the single-rail runs to know the gain, without tripling the whole bench.
_SINGLE_SECONDS = 0.5


@dataclass
class Request:
    """What was asked for on the command line."""

    spec: BenchSpec
    nodes: int = 4
    ranks_per_node: int = 1
    rails: List[str] = field(default_factory=lambda: ["1gbit", "1gbit"])
    one_rail: Optional[int] = None
    launches: int = 1
    gain: bool = True
    peers: List[str] = field(default_factory=list)
    torch_python: Optional[str] = None
    cores_per_rail: Optional[int] = None
    lab_options: Dict[str, Any] = field(default_factory=dict)


@dataclass
class Report:
    """What was measured. `document` is the JSON; `gains` belong to its rows, in order."""

    document: Dict[str, Any]
    gains: List[Optional[float]]

    @property
    def rows(self) -> List[Row]:
        """Nezha's rows."""
        return self.document["rows"]

    def curves(self) -> Dict[str, List[Row]]:
        """Rows by the name a picture's legend shows."""
        rails = " + ".join(self.document["config"]["rails"]) or "rails as found"
        only = self.document["config"]["one_rail"]
        curves = {f"Nezha, {rails}" if only is None else f"Nezha, rail {only} of {rails}":
                  self.rows}
        for name, entry in self.document.get("singles", {}).items():
            curves[f"Nezha, {name} only"] = entry["rows"]
        found = self.document.get("best", {})
        for name, entry in self.document.get("peers", {}).items():
            if name not in beside(found):
                curves[name] = entry["rows"]
        return {**curves, **{f"{name}, best setting": entry["rows"] for name, entry in found.items()}}


def run_in_world(request: Request, step: Step) -> Optional[Report]:
    """Measures in the world this process belongs to. The report on rank 0, None elsewhere. The rails are
    the hosts', and the request's nodes, rails, launches, gain and peers have no meaning."""
    import nezha

    lab = surrounding_lab()
    spec = request.spec
    if lab is not None:
        spec = replace(spec, rates=lab_rates(lab))
    if request.one_rail is not None:
        spec = replace(spec, config={**spec.config, "rails": _named_rail(request.one_rail)})
    free: List[Row] = []
    if request.cores_per_rail is not None:
        short = _short(spec)
        with nezha.init(config=spec.config) as comm:
            free = make_rows(short, [measure(comm, short)])
            spec = replace(spec, cores=request.cores_per_rail * len(comm.rails()))
            cores = facts(request.cores_per_rail, len(comm.rails()), ranks_here(comm.world_size))
    with nezha.init(config=restrict(spec)) as comm:
        progress = step("nezha", len(spec.sizes)) if comm.rank == 0 else None
        launches = [measure(comm, spec, progress)]
        rails = [rail["name"] for rail in comm.rails()]
        first, ranks = comm.rank == 0, comm.world_size
    if not first:
        return None
    request = replace(request, spec=spec, nodes=ranks, rails=rails, launches=1)
    report = _report(request, launches, {}, {}, lab_facts(lab) if lab else None)
    if request.cores_per_rail is not None:
        _add_cores(report, cores, free)
    return report


def run_in_lab(request: Request, step: Step) -> Report:
    """Builds a lab, measures Nezha, its single rails and the peers in it, removes the lab."""
    if request.peers and request.cores_per_rail is not None:
        raise BenchError("--cores-per-rail limits Nezha's ranks only: leave --compare out")
    with BenchLab(request.nodes, request.rails, ranks_per_node=request.ranks_per_node,
                  **request.lab_options) as lab:
        spec = replace(request.spec, rates=lab.rates())
        rails = len(request.rails) if request.one_rail is None else 1
        if request.cores_per_rail is not None:
            spec = replace(spec, cores=request.cores_per_rail * rails)
        request = replace(request, spec=spec)
        capacities = lab.capacities(spec)
        launches, peers, without = _run_launches(lab, request, step)
        singles = _run_singles(lab, request, step)
        report = _report(request, launches, singles, peers, lab.facts())
        report.document["config"]["lab"]["capacity"] = {kind: capacity.as_dict() for kind, capacity
                                                        in capacities.items()}
        note(report.rows, lab.measured(spec))
        if without:
            report.document["peers_left_out"] = without
        if request.cores_per_rail is not None:
            short = _short(replace(spec, cores=None))
            samples = lab.run(short, step("all cores", len(spec.sizes)), request.one_rail,
                              apart=False)
            _add_cores(report, facts(request.cores_per_rail, rails, lab.lab.ranks),
                       make_rows(short, [samples]))
        return report


def _short(spec: BenchSpec) -> BenchSpec:
    return replace(spec, seconds=min(_SINGLE_SECONDS, spec.seconds))


def _add_cores(report: Report, cores: Dict[str, Any], free: List[Row]) -> None:
    """What --cores-per-rail gave, and the same operations without a limit."""
    report.document["config"]["cores"] = cores
    report.document["free"] = {"rows": free}


def _run_singles(lab: BenchLab, request: Request, step: Step) -> Dict[str, List[Row]]:
    """Every rail alone, by device name: what all of them together must beat."""
    if not request.gain or request.one_rail is not None or len(request.rails) < 2:
        return {}
    spec = _short(request.spec)
    singles = {}
    for number, (device, address, _) in enumerate(lab.devices()):
        name = address if lab.lab.mode == "loopback" and address else device
        samples = lab.run(spec, step(f"only {name}", len(spec.sizes)), number)
        singles[name] = lab.rows(spec, [samples])
    return singles


def _run_launches(
    lab: BenchLab, request: Request, step: Step,
) -> Tuple[List[List[Sample]], Dict[str, List[Row]], Dict[str, str]]:
    """Nezha and the other libraries, launched in turns: Nezha's samples, the rows of the others by name,
    and why some have none."""
    spec, total = request.spec, request.launches
    runners, without = find_peers(request.peers, request.torch_python)
    launches: List[List[Sample]] = []
    samples: Dict[str, List[List[Sample]]] = {name: [] for name in runners}
    for number in range(1, total + 1):
        turn = f" {number}/{total}" if total > 1 else ""
        launches.append(lab.run(spec, step(f"nezha{turn}", len(spec.sizes)), request.one_rail))
        for name in [each for each in samples if each not in without]:
            done = step(f"{name}{turn}", len(spec.sizes))
            try:
                samples[name].append(_run_peer(lab, runners[name], spec, done))
            except BenchError as error:
                without[name] = str(error)
    rows = {name: lab.rows(spec, each, name) for name, each in samples.items() if name not in without}
    return launches, rows, without


def _run_peer(lab: BenchLab, run: Runner, spec: BenchSpec,
              done: Callable[[Sample], None]) -> List[Sample]:
    samples = lab.shaped(spec, lambda part: run(lab, part, done))
    return [replace(sample, hosts=lab.nodes) for sample in samples]


def _report(
    request: Request, launches: List[List[Sample]], singles: Dict[str, List[Row]],
    peers: Dict[str, List[Row]], lab: Optional[Dict[str, Any]],
) -> Report:
    spec = request.spec
    rows = make_rows(spec, launches)
    document: Dict[str, Any] = {
        "config": {
            "schema": SCHEMA_NOTE, "collective": spec.collective,
            "ranks": request.nodes * request.ranks_per_node, "ranks_per_node": request.ranks_per_node,
            "rails": request.rails, "one_rail": request.one_rail, "type": spec.dtype,
            "redop": spec.op if spec.collective in REDUCTIONS else "none",
            "in_place": spec.in_place, "algorithm": spec.algorithm,
            "launches": request.launches, "iterations": spec.iterations, "warmup": spec.warmup,
            "checks": spec.checks, "options": spec.config, "lab": lab, "host": _host(),
        },
        "rows": rows,
        "wire_check": wire_check(launches),
    }
    if request.launches > 1:
        document["spread"] = spread(launches)
    if singles:
        document["singles"] = {name: {"rows": each} for name, each in singles.items()}
    if peers:
        document["peers"] = {name: {"algorithm": words(name), "rows": each}
                             for name, each in peers.items()}
        document["best"] = best(peers)
    return Report(document, gains(rows, singles))


def _host() -> Dict[str, Any]:
    return {"cpus": os.cpu_count(), "kernel": platform.release(), "machine": platform.machine(),
            "python": platform.python_version()}


def _named_rail(index: int) -> str:
    """Rail `index` among those NEZHA_RAILS names, as a filter for it alone."""
    names = [name for name in os.environ.get("NEZHA_RAILS", "").lstrip("=").split(",") if name]
    if not 0 <= index < len(names) or any(name.startswith("^") for name in names):
        raise BenchError(f"--one-rail {index} in a launched world needs NEZHA_RAILS to name the "
                         f"rails (it is {os.environ.get('NEZHA_RAILS', 'not set')!r})")
    return names[index] if "." in names[index] or "/" in names[index] else "=" + names[index]
