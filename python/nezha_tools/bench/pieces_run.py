"""One call of `nezha bench pieces`: the same bytes at once and in pieces, in a lab or a world."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, Callable, Dict, List, Optional

from ..cli.errors import BenchError
from ..cli.progress import Step
from ..cli.sizes import format_size
from .lab_facts import lab_facts, lab_rates, surrounding_lab
from .lab_runner import BenchLab
from .measure import measure
from .reference import itemsize
from .rows import Row, make_rows
from .shaping_choice import note
from .spec import SUBMITTED, BenchSpec, Sample

AT_ONCE = "at once"
PIECES_MAX = 100_000

# The source's measurement is the reason for this command.
PUBLISHED = {
    "source": "S. Bekman, Machine Learning Engineering, all_reduce_latency_comp.py: 8 ranks of one node "
              "with A100, NCCL, back to back",
    "pieces": 1000, "piece_bytes": 4_000_000, "at_once_gbps": 1257.165, "in_pieces_gbps": 374.391}
_SCHEMA = (
    "size: bytes of all pieces together; way: how the pieces are submitted; time_us: of all pieces, the "
    "median over the passes of the mean; busbw_gbps: nccl-tests' bus bandwidth in Gbit/s (1e9 bits); "
    "at_once_by_this: busbw at once / busbw of this row; wrong: elements of a checked run of all ranks; "
    "shaping: how a lab's wires are shaped for pieces of this size, flattery the share by which its "
    "buckets may make a rate look higher (null: they could hold a whole piece)")
Runner = Callable[[BenchSpec], List[Sample]]


@dataclass
class Request:
    """What was asked for on the command line. size: bytes; pieces: numbers of equal pieces."""

    size: int
    pieces: List[int]
    nodes: int = 4
    rails: List[str] = field(default_factory=lambda: ["1gbit", "1gbit"])
    seconds: float = 2.0
    iterations: Optional[int] = None
    passes: int = 1
    config: Dict[str, str] = field(default_factory=dict)
    lab_options: Dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Raises BenchError for what cannot be run, before anything is built."""
        element = itemsize("float32")
        for count in self.pieces:
            if not 2 <= count <= PIECES_MAX:
                raise BenchError(f"--pieces {count}: it must be 2 to {PIECES_MAX}; the vector at once is "
                                 "measured in any case")
            if self.size % (count * element) or self.size == 0:
                raise BenchError(f"--size {format_size(self.size)}: {count} equal pieces of whole "
                                 f"float32 elements need a multiple of {count * element} bytes")

    def specs(self) -> List[BenchSpec]:
        """At once, and each number of pieces in every way of submitting them."""
        whole = BenchSpec([self.size], seconds=self.seconds, iterations=self.iterations,
                          config=self.config)
        return [whole, *(replace(whole, pieces=count, submitted=way)
                         for count in self.pieces for way in SUBMITTED)]


def run_in_lab(request: Request, step: Step) -> Dict[str, Any]:
    """Builds a lab, measures in it, removes it. The document. Raises BenchError, LabError."""
    with BenchLab(request.nodes, request.rails, **request.lab_options) as lab:
        advance = step("pieces", len(request.specs()) * request.passes)
        found = _measure(lambda spec: lab.run(replace(spec, rates=lab.rates()), advance), request)
        made = _document(request, found, lab.facts())
        for spec, row in zip(request.specs(), made["results"]):
            note([row], lab.measured(spec))
        return made


def run_in_world(request: Request, step: Step) -> Optional[Dict[str, Any]]:
    """Measures in the world this process belongs to. The document on rank 0, None elsewhere."""
    import nezha

    lab = surrounding_lab()
    rates = lab_rates(lab) if lab is not None else {}
    with nezha.init(config=request.config) as comm:
        first, ranks = comm.rank == 0, comm.world_size
        advance = step("pieces", len(request.specs()) * request.passes) if first else None
        found = _measure(lambda spec: measure(comm, replace(spec, rates=rates), advance), request)
        rails = [rail["name"] for rail in comm.rails()]
    if not first:
        return None
    return _document(replace(request, nodes=ranks, rails=rails), found, lab_facts(lab) if lab else None)


def _measure(run: Runner, request: Request) -> List[List[Sample]]:
    """For each spec the sample of every pass. Passes go round all specs, so that a busy host does not
    slow one of them only."""
    samples: List[List[Sample]] = [[] for _ in request.specs()]
    for _ in range(request.passes):
        for spec, taken in zip(request.specs(), samples):
            taken += run(spec)
    return samples


def results(specs: List[BenchSpec], samples: List[List[Sample]]) -> List[Row]:
    """The rows of nezha bench all_reduce, each with pieces, piece_size, way and at_once_by_this."""
    rows = []
    for spec, taken in zip(specs, samples):
        row = make_rows(spec, [[sample] for sample in taken])[0]
        way = AT_ONCE if spec.pieces == 1 else spec.submitted
        rows.append({"pieces": spec.pieces, "piece_size": row["size"] // spec.pieces, "way": way, **row})
    for row in rows:
        row["at_once_by_this"] = (rows[0]["busbw_gbps"] / row["busbw_gbps"] if row["busbw_gbps"]
                                  else None)
    return rows


def _document(request: Request, samples: List[List[Sample]],
              lab: Optional[Dict[str, Any]]) -> Dict[str, Any]:
    rows = results(request.specs(), samples)
    return {"config": {"schema": _SCHEMA, "size": request.size, "ranks": request.nodes,
                       "rails": request.rails, "type": "float32", "redop": "sum", "in_place": True,
                       "passes": request.passes, "options": request.config, "lab": lab},
            "results": rows, "published": PUBLISHED, "wrong": sum(row["wrong"] for row in rows)}
