"""One call of `nezha bench interference`: measuring, in a lab or a launched world, and the document."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Callable, Dict, List, Optional, Sequence

from ..cli.errors import BenchError
from nezha.files import explained
from nezha.files import whole_file
from .formulas import median
from .lab_runner import BenchLab
from .measure import measure
from ..cli.progress import Step
from .spec import BenchSpec, Sample
from .lab_facts import lab_facts, lab_rates, surrounding_lab
from . import interference_plan
from .interference_model import Costs, Measurement, fit, predict, rule

FILE_VERSION = 1
Runner = Callable[[BenchSpec, Optional[int]], List[Sample]]  # the rail: that one only
SCHEMA_NOTE = (
    "sizes and bytes in bytes; *_us in microseconds; *_gbps in gigabits (1e9 bits) per second; "
    "rate_lost[i][j] is the part of its rate that rail i loses while rail j runs, too; sent[i] is "
    "what one rank sent on rail i per operation; file is what nezha calibrate --interference reads"
)


@dataclass
class Request:
    """What was asked for on the command line."""

    sizes: List[int]
    nodes: int = 2
    rails: List[str] = field(default_factory=lambda: ["1gbit", "1gbit"])
    seconds: float = 0.5
    passes: int = 2
    config: Dict[str, str] = field(default_factory=dict)
    lab_options: Dict[str, Any] = field(default_factory=dict)

    def spec(self) -> BenchSpec:
        """Times that grow with the size as they would for one message: one algorithm, and chunks so
        small that the smallest operation divides."""
        if len(self.sizes) < 2:
            raise BenchError("interference needs two sizes at least: startup and rate are separated "
                             "by them; give -b smaller than -e")
        config = {"chunk_bytes": "64K", "shm": "off", **self.config}
        return BenchSpec(sizes=self.sizes, algorithm="ring", seconds=self.seconds, config=config)


def run_in_lab(request: Request, step: Step) -> Dict[str, Any]:
    """Builds a lab, measures in it, removes it. The document. Raises BenchError, LabError."""
    _check_rails(len(request.rails))
    with BenchLab(request.nodes, request.rails, **request.lab_options) as lab:
        spec = replace(request.spec(), rates=lab.rates())
        advance = _progress(step, len(request.rails), spec, request.passes)
        found = _measure(lambda each, rail: lab.run(each, advance, rail), spec, len(request.rails),
                         request.passes)
        return _document(request, found, lab.facts())


def run_in_world(request: Request, step: Step) -> Optional[Dict[str, Any]]:
    """Measures in the world this process belongs to. The document on rank 0, None elsewhere."""
    import nezha

    surrounding = surrounding_lab()
    spec = request.spec()
    if surrounding is not None:
        spec = replace(spec, rates=lab_rates(surrounding))
    with nezha.init(config=spec.config) as comm:
        first, ranks = comm.rank == 0, comm.world_size
        rails = [rail["name"] for rail in comm.rails()]
    _check_rails(len(rails))
    advance = _progress(step, len(rails), spec, request.passes) if first else None

    def run(each: BenchSpec, rail: Optional[int]) -> List[Sample]:
        only = {} if rail is None else {"rails": f"={rails[rail]}"}
        with nezha.init(config={**each.config, **only}) as world:
            return measure(world, each, advance)

    found = _measure(run, spec, len(rails), request.passes)
    if not first:
        return None
    request = replace(request, nodes=ranks, rails=rails)
    return _document(request, found, lab_facts(surrounding) if surrounding else None)


def _check_rails(rails: int) -> None:
    if rails < 2:
        raise BenchError(f"interference needs two rails at least, and there is {rails}")


def _progress(step: Step, rails: int, spec: BenchSpec, passes: int) -> Callable[[Any], None]:
    experiments = len(interference_plan.alone(rails)) + len(interference_plan.beside([1.0] * rails))
    return step("interference", passes * experiments * len(spec.sizes))


@dataclass
class _Found:
    names: List[str]
    costs: Costs
    measurements: Dict[str, List[Measurement]]
    wrong: int


def _measure(run: Runner, spec: BenchSpec, rails: int, passes: int) -> _Found:
    """Every rail alone, then what their rates tell to measure."""
    alone = interference_plan.alone(rails)
    samples = _samples(run, spec, alone, passes)
    names = [_only_rail(samples[each.what]) for each in alone]
    if len(set(names)) != rails:
        raise BenchError(f"rails cannot be told apart by their devices ({', '.join(names)}): measure "
                         "between hosts, or in a lab with namespaces")
    measured = {each.what: _measurements(each, samples[each.what], names) for each in alone}
    by_rail = dict(enumerate(measured.values()))
    beside = interference_plan.beside([1.0 / cost for cost in fit(by_rail, [], []).s_per_byte])
    samples.update(_samples(run, spec, beside, passes))
    measured.update({each.what: _measurements(each, samples[each.what], names) for each in beside})
    kinds = {kind: [found for each in beside if each.kind == kind for found in measured[each.what]]
             for kind in ("shared", "trickle")}
    wrong = sum(sample.wrong for each in samples.values() for sample in each)
    return _Found(names, fit(by_rail, kinds["shared"], kinds["trickle"]), measured, wrong)


def _samples(run: Runner, spec: BenchSpec, experiments: Sequence[interference_plan.Experiment],
             passes: int) -> Dict[str, List[Sample]]:
    """Of every experiment and size, the pass with the lowest median, and all passes' wrong elements.

    A busy host slows a whole run. Passes go round all experiments, so that it does not hit one.
    """
    best: Dict[str, List[Sample]] = {}
    for _ in range(passes):
        for experiment in experiments:
            found = run(_weighted(spec, experiment), experiment.only)
            before = best.get(experiment.what, found)
            best[experiment.what] = [_better(old, new) for old, new in zip(before, found)]
    return best


def _better(old: Sample, new: Sample) -> Sample:
    wrong = new.wrong if new is old else old.wrong + new.wrong
    return replace(min(old, new, key=lambda sample: median(sample.times_us)), wrong=wrong)


def _weighted(spec: BenchSpec, experiment: interference_plan.Experiment) -> BenchSpec:
    if experiment.only is not None:
        return spec
    return replace(spec, config={**spec.config, "policy": "static", "weights": experiment.text})


def _only_rail(samples: Sequence[Sample]) -> str:
    """The name of an experiment's one rail."""
    return max(samples[-1].rails, key=lambda rail: rail.bytes).name


def _measurements(experiment: interference_plan.Experiment, samples: Sequence[Sample],
                  names: Sequence[str]) -> List[Measurement]:
    """What a rail without a weight carries is the bench's own few bytes, not the operations'."""
    found = []
    for sample in samples:
        operations = len(sample.times_us) * sample.ranks
        sent = {rail.name: rail.bytes / operations for rail in sample.rails}
        found.append(Measurement(experiment.what, sample.size, median(sample.times_us) / 1e6,
                                 [sent.get(name, 0.0) if weight > 0 else 0.0
                                  for name, weight in zip(names, experiment.weights)]))
    return found


def _document(request: Request, found: _Found, lab: Optional[Dict[str, Any]]) -> Dict[str, Any]:
    costs, names = found.costs, found.names
    rails = range(len(names))
    return {
        "config": {"schema": SCHEMA_NOTE, "ranks": request.nodes, "rails": request.rails,
                   "sizes": request.sizes, "options": request.spec().config, "lab": lab},
        "rails": [{"name": names[rail], "startup_us": costs.startup_s[rail] * 1e6,
                   "rate_gbps": 8e-9 / costs.s_per_byte[rail]} for rail in rails],
        "rate_lost": costs.lost,
        "rate_lost_to_trickle": costs.trickle,
        "split_cost_us": costs.split_cost_s * 1e6,
        "rules": [{**asdict(each), "helps": each.helps}
                  for each in (rule(costs, a, b) for a in rails for b in rails if a < b)],
        "measurements": [{"what": each.what, "size": each.size, "time_us": each.time_s * 1e6,
                          "predicted_us": predict(costs, each.sent) * 1e6, "sent": each.sent}
                         for each_list in found.measurements.values() for each in each_list],
        "wrong": found.wrong,
        "file": matrix_file(names, costs),
    }


def matrix_file(names: Sequence[str], costs: Costs) -> Dict[str, Any]:
    """What `nezha calibrate --interference` and `nezha plan` read: docs/balancing.md documents it."""
    return {"version": FILE_VERSION, "rails": list(names),
            "split_cost_s": round(costs.split_cost_s, 9),
            "rate_lost": [[round(lost, 4) for lost in row] for row in costs.lost]}


def save(document: Dict[str, Any], path: Path) -> None:
    """Writes the matrix to `path`. Raises BenchError."""
    try:
        with whole_file(path) as place:
            place.write_text(json.dumps(document["file"], indent=1) + "\n", encoding="utf-8")
    except OSError as error:
        raise BenchError(f"cannot write {path}: {explained(error)}") from error
