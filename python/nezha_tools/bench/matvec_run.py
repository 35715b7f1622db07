"""One call of `nezha bench matvec`: labs of several sizes, both forms launched in turn, the document."""

from __future__ import annotations

import sys
from dataclasses import asdict, dataclass, field
from typing import Any, Dict, List, Optional

from ..cli.errors import BenchError
from ..cli.progress import Step
from .formulas import limit_seconds, median
from .lab_runner import BenchLab
from .matvec_spec import BYTES, Launch, MatvecSpec

SCALINGS = ("strong", "weak")
FLAT, BY_HOST = "flat", "by host"

_SCHEMA = (
    "form: 'flat' runs with hierarchy=off, 'by host' without; *_us: medians of the launches' medians; "
    "gather_us: in the all_gather, the mean of all ranks; limit_us: in which the rails can carry the "
    "vector once between the hosts; wire_bytes: sent by all hosts in an iteration; efficiency: of the "
    "first layout's speed for each rank, of 'by host'; wrong: elements")


@dataclass
class Request:
    """What was asked for on the command line. nodes: a lab each; columns: with the fewest of them."""

    scalings: List[str]
    nodes: List[int]
    ranks_per_node: int = 2
    rows: int = 32
    columns: int = 65536
    rails: List[str] = field(default_factory=lambda: ["200mbit", "200mbit"])
    launches: int = 3
    iterations: Optional[int] = None
    config: Dict[str, str] = field(default_factory=dict)
    lab_options: Dict[str, Any] = field(default_factory=dict)

    def columns_of(self, scaling: str, nodes: int) -> int:
        """Columns with so many nodes: a rank's part of the vector stays as long in weak scaling."""
        return self.columns if scaling == "strong" else self.columns * nodes // min(self.nodes)

    def __post_init__(self) -> None:
        """Raises BenchError for what cannot be run, before anything is built."""
        for scaling in self.scalings:
            if scaling not in SCALINGS:
                raise BenchError(f"--scaling {scaling}: strong, weak or strong,weak")
        for nodes in self.nodes:
            ranks = nodes * self.ranks_per_node
            if nodes < 1 or self.rows % ranks:
                raise BenchError(f"--rows {self.rows}: {ranks} ranks cannot have equally many rows; give "
                                 "a multiple of the ranks of every number of --nodes")
            for scaling in self.scalings:
                columns = self.columns_of(scaling, nodes)
                if columns % ranks or columns == 0:
                    raise BenchError(f"--columns {self.columns}: {columns} elements are no equal parts "
                                     f"for {ranks} ranks; give a multiple of the ranks")


def run(request: Request, step: Step) -> Dict[str, Any]:
    """Measures every layout; the document. Raises BenchError, LabError."""
    rows: List[Dict[str, Any]] = []
    facts: Dict[str, Any] = {}
    for nodes in request.nodes:
        with BenchLab(nodes, request.rails, ranks_per_node=request.ranks_per_node,
                      **request.lab_options) as lab:
            for scaling in request.scalings:
                rows += _measure(request, scaling, lab, step)
            facts = lab.facts()
    rows.sort(key=lambda row: request.scalings.index(row["scaling"]))  # stable: layouts keep their order
    _compare(rows)
    return {"config": {"schema": _SCHEMA, "nodes": request.nodes,
                       "ranks_per_node": request.ranks_per_node, "rails": request.rails,
                       "launches": request.launches, "options": request.config, "lab": facts},
            "results": rows, "wrong": sum(row["wrong"] for row in rows)}


def _measure(request: Request, scaling: str, lab: BenchLab, step: Step) -> List[Dict[str, Any]]:
    """The rows of one matrix in one lab: flat and by host, launched in turn; by host alone where hosts
    say nothing that ranks do not."""
    forms = [FLAT, BY_HOST] if lab.nodes > 1 and request.ranks_per_node > 1 else [BY_HOST]
    columns = request.columns_of(scaling, lab.nodes)
    advance = step(f"{scaling}, {lab.nodes} x {request.ranks_per_node}", request.launches * len(forms))
    found: Dict[str, List[Launch]] = {form: [] for form in forms}
    for _ in range(request.launches):
        for form in forms:
            config = {**request.config, **({"hierarchy": "off"} if form == FLAT else {})}
            spec = MatvecSpec(request.rows, columns, request.iterations, config=config,
                              devices=[device for device, _, _ in lab.devices()])
            found[form] += _launch(lab, spec, advance)
    rates = list(lab.rates().values())
    limit = limit_seconds("all_gather", lab.nodes, columns * BYTES, rates) if rates else None
    return [{"scaling": scaling, "nodes": lab.nodes, "ranks": lab.lab.ranks, "form": form,
             "rows": request.rows, "columns": columns, "limit_us": limit * 1e6 if limit else None,
             **summary(found[form])} for form in forms]


def _launch(lab: BenchLab, spec: MatvecSpec, advance: Any) -> List[Launch]:
    path = lab.scratch / "matvec.json"
    spec.save(path)
    command = [sys.executable, "-m", "nezha_tools.bench.matvec_worker", str(path)]
    one_thread = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
    launches: List[Launch] = lab.launch(
        command, [one_thread] * lab.lab.ranks, advance, parse=Launch.parse)
    if len(launches) != 1:
        raise BenchError(f"{lab.lab.ranks} ranks: rank 0 ended without a result")
    return launches


def summary(launches: List[Launch]) -> Dict[str, Any]:
    """Of the launches of one row."""
    iterations = [median(launch.iteration_us) for launch in launches]
    gathers = [median(launch.gather_us) for launch in launches]
    return {"iteration_us": median(iterations), "gather_us": median(gathers),
            "gather_share": median(gathers) / median(iterations),
            "algorithms": sorted({name for launch in launches for name in launch.algorithms}),
            "wire_bytes": median([launch.wire_bytes for launch in launches]),
            "wrong": sum(launch.wrong for launch in launches),
            "launches": [asdict(launch) for launch in launches]}


def _compare(rows: List[Dict[str, Any]]) -> None:
    """Adds `gain`, flat / by host of iteration and gather, and `efficiency`, to the rows by host."""
    for row in rows:
        alike = [each for each in rows if each["scaling"] == row["scaling"]]
        first = next(each for each in alike if each["form"] == BY_HOST)
        flat = [each for each in alike if each["form"] == FLAT and each["ranks"] == row["ranks"]]
        is_compared = row["form"] == BY_HOST and bool(flat)
        for key in ("iteration_us", "gather_us"):
            row[f"{key[:-3]}_gain"] = flat[0][key] / row[key] if is_compared else None
        ideal = first["iteration_us"]
        if row["scaling"] == "strong":
            ideal *= first["ranks"] / row["ranks"]
        row["efficiency"] = ideal / row["iteration_us"]
