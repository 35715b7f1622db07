"""The runs of `nezha bench switch` and `table1`, running them in labs, and the documents that come out.

Host-based: the ranks' own algorithms; switch-based: everything through the aggregation node. Fixed shares
of two networks are the paper's Table I: each alone, even, and 99 to 1 both ways.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, Dict, List, Optional, Sequence

from ..lab import parse_rail
from ..cli.errors import BenchError
from .formulas import median
from .lab_runner import BenchLab
from .rows import Row, make_rows
from ..cli.progress import Step
from .spec import BenchSpec, Sample

_SCHEMA = (
    "sizes in bytes; *_us in microseconds; time_us: of all operations together on the slowest rank, "
    "divided by their number; the other times: of single operations, each on its slowest rank; ratio: "
    "time over hosts / time through the switch; wanted: the part of each operation that was to go "
    "through the aggregation node; node_share: the part of all bytes sent that did; operations: how many "
    "were timed; wrong: elements that were not what they should be"
)
# How each way is configured: without a node even its heartbeats stay away.
WAYS = {"hosts": {"aggregator": ""}, "switch": {"aggregator_share": "1"}}
_SHARES = ((1, 1), (99, 1), (1, 99))


@dataclass(frozen=True)
class Run:
    """One configuration. only: the one rail that the ranks have; None: all."""

    what: str
    config: Dict[str, str] = field(default_factory=dict)
    only: Optional[int] = None


def way(name: str) -> Run:
    """A run of the switch bench: `name` is one of WAYS."""
    return Run(name, WAYS[name])


def table(rails: Sequence[str], kinds: Sequence[str]) -> List[Run]:
    """The runs over two rails, as they are called ("1gbit") and of which kinds ("agg") they are.

    Raises BenchError where there are not two, or where both lead to aggregation nodes.
    """
    if len(rails) != 2 or list(kinds).count("agg") > 1:
        raise BenchError(f"rails {','.join(rails)}: want two, of which one may be an agg: rail, such as "
                         "1gbit,agg:1gbit")
    node = list(kinds).index("agg") if "agg" in kinds else None
    runs = []
    for number, (name, kind) in enumerate(zip(rails, kinds)):
        share = {"aggregator_share": "1"} if kind == "agg" else {}
        which = f" ({number})" if rails[0] == rails[1] else ""
        runs.append(Run(f"{name} alone{which}", share, number))
    for shares in _SHARES:
        text = f"{shares[0]}:{shares[1]}"
        if node is None:
            runs.append(Run(text, {"policy": "static", "weights": text}))
        else:
            runs.append(Run(text, {"aggregator_share": f"{shares[node] / sum(shares):.6g}"}))
    return runs


@dataclass
class Request:
    """What was asked for on the command line. nodes: of each lab, one after the other."""

    sizes: List[int]
    nodes: List[int]
    rails: List[str]
    seconds: float = 1.0
    operations: int = 2000
    agg_tree: Optional[str] = None
    config: Dict[str, str] = field(default_factory=dict)
    lab_options: Dict[str, Any] = field(default_factory=dict)

    def spec(self) -> BenchSpec:
        """What every run has in common."""
        return BenchSpec(sizes=self.sizes, seconds=self.seconds, most=self.operations, config=self.config)

    def lab(self, nodes: int) -> BenchLab:
        """A lab of `nodes` nodes, not up yet."""
        return BenchLab(nodes, self.rails, agg_tree=self.agg_tree, **self.lab_options)


def run_switch(request: Request, step: Step) -> Dict[str, Any]:
    """Hosts against the node, in a lab for each number of nodes. Raises BenchError, LabError."""
    kinds = [parse_rail(rail).kind for rail in request.rails]
    if kinds != ["agg"]:
        raise BenchError(f"rails {','.join(request.rails)}: want one agg: rail, on which both ways are "
                         "measured, such as agg:1gbit")
    advance = step("switch", len(request.nodes) * len(WAYS) * len(request.sizes))
    results: List[Dict[str, Any]] = []
    for nodes in request.nodes:
        with request.lab(nodes) as lab:
            found = {name: _run(lab, request, way(name), advance)
                     for name in WAYS}
            for hosts, switch in zip(found["hosts"], found["switch"]):
                results.append({"nodes": nodes, "size": hosts["size"], "hosts": hosts,
                                "switch": switch,
                                "ratio": hosts["time_us"] / switch["time_us"]})
            facts = lab.facts()
    return {"config": {"schema": _SCHEMA, "nodes": request.nodes, "rails": request.rails,
                       "sizes": request.sizes, "agg_tree": request.agg_tree, "options": request.config,
                       "lab": facts},
            "results": results,
            "wrong": sum(each[name]["wrong"] for each in results for name in WAYS)}


def run_table(request: Request, step: Step) -> Dict[str, Any]:
    """Fixed shares of two rails, in one lab. Raises BenchError, LabError."""
    runs = table(request.rails, [parse_rail(rail).kind for rail in request.rails])
    advance = step("table1", len(runs) * len(request.sizes))
    with request.lab(request.nodes[0]) as lab:
        results = [{"what": run.what, "wanted": float(run.config.get("aggregator_share", 0)), **cell}
                   for run in runs
                   for cell in _run(lab, request, run, advance)]
        facts = lab.facts()
    return {"config": {"schema": _SCHEMA, "nodes": request.nodes[0], "rails": request.rails,
                       "sizes": request.sizes, "operations": request.operations,
                       "seconds": request.seconds, "options": request.config, "lab": facts},
            "results": results, "wrong": sum(each["wrong"] for each in results)}


def _run(lab: BenchLab, request: Request, run: Run,
         advance: Any) -> List[Dict[str, Any]]:
    spec = replace(request.spec(), rates=lab.rates(), config={**request.config, **run.config})
    samples = lab.run(spec, advance, run.only)
    return [cell_of(sample, row) for sample, row in zip(samples, make_rows(spec, [samples]))]


def cell_of(sample: Sample, row: Row) -> Dict[str, Any]:
    """The numbers of one size of one run."""
    times: Sequence[float] = sample.times_us
    sent = sum(rail.bytes for rail in sample.rails)
    through = sum(rail.bytes for rail in sample.rails if rail.transport == "agg")
    return {"size": sample.size, "operations": len(times), "time_us": row["time_us"],
            "min_us": min(times), "max_us": max(times), "avg_us": sum(times) / len(times),
            "median_us": median(times), "wrong": sample.wrong,
            "of_limit": row["of_limit"], "cpu_s_per_gb": row["cpu_s_per_gb"],
            "node_share": through / sent if sent else 0.0}
