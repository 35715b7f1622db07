"""One call of `nezha bench p2p`: every rail alone, in a lab or a launched world, and the document."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field, replace
from typing import Any, Dict, List, Optional

import numpy as np

from ..cli.errors import BenchError
from ..cli.progress import Step
from ..lab import parse_rail
from . import p2p_matrix
from .lab_facts import lab_facts, surrounding_lab, surrounding_rates
from .lab_runner import BenchLab
from .p2p_spec import P2pSpec, RailMatrix
from .p2p_worker import measure

SIZE_MAX = 1 << 30
_PATIENCE_SECONDS = 300.0  # of a rail, beyond the time in which its pairs are measured
_MEASURED = 8  # times --seconds that a pair takes: pilots, three rates, latency
_SCHEMA = (
    "matrices: [sender][receiver]; one_way_gbps: one pair at a time, one direction; both_ways_gbps: the "
    "sum of both directions at the same time; their diagonals: NumPy's copy in the memory of that rank's "
    "host, bytes copied per second; *_gbps: Gbit/s (1e9 bits) of payload; latency_us: half the median "
    "time there and back of 8 bytes; of_advertised: parts of the rate of the slower port, null where it "
    "is not known and between ranks of one host; slow: cells below half (latency: above twice) the usual "
    "value, which is the median over the ranks of the best cell of each; wrong: bytes")


@dataclass
class Request:
    """What was asked for on the command line. size: bytes of a message; seconds: of each cell."""

    size: int = 4 << 20
    seconds: float = 0.3
    nodes: int = 4
    rails: List[str] = field(default_factory=lambda: ["1gbit", "1gbit"])
    config: Dict[str, str] = field(default_factory=dict)
    lab_options: Dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Raises BenchError for what cannot be run, before anything is built."""
        if not 1 <= self.size <= SIZE_MAX:
            raise BenchError(f"--size {self.size}: a message has 1 byte to 1G")

    def spec(self, rail: int) -> P2pSpec:
        """One rail's launch. Memory that ranks of a host share is no rail."""
        return P2pSpec(rail, self.size, self.seconds, {"shm": "off", **self.config})


def run_in_lab(request: Request, step: Step) -> Dict[str, Any]:
    """Builds a lab, measures in it, removes it. The document. Raises BenchError, LabError."""
    if any(parse_rail(rail).kind == "agg" for rail in request.rails):
        raise BenchError(f"--rates {','.join(request.rails)}: aggregation nodes carry no messages; name "
                         "rails without agg:")
    with BenchLab(request.nodes, request.rails, **request.lab_options) as lab:
        advance = step("rails", len(request.rails))
        found: List[RailMatrix] = []
        for rail in range(len(request.rails)):
            path = lab.scratch / f"p2p-{rail}.json"
            replace(request.spec(rail), rates=lab.rates()).save(path)
            patience = _PATIENCE_SECONDS + _MEASURED * request.seconds * request.nodes ** 2
            found += lab.launch([sys.executable, "-m", "nezha_tools.bench.p2p_worker", str(path)],
                                lab.only(rail), advance, patience, RailMatrix.parse)
        if len(found) < len(request.rails):
            raise BenchError(f"{len(found)} of {len(request.rails)} rails gave a result")
        return document(request, found, lab.facts())


def run_in_world(request: Request, step: Step) -> Optional[Dict[str, Any]]:
    """Measures in the world this process belongs to. The document on rank 0, None elsewhere."""
    import nezha

    with nezha.init(config=request.spec(0).config) as comm:
        first, ranks = comm.rank == 0, comm.world_size
        names = [rail["name"] for rail in comm.rails()]
        fewest, most = (int(comm.all_reduce(np.array([len(names)]), op)[0]) for op in ("min", "max"))
    if ranks < 2:
        raise BenchError("there is one rank, and pairs need two: start more, or ask for a lab by --nodes")
    if fewest < most:
        raise BenchError(f"ranks have {fewest} to {most} rails: choose as many on every host with "
                         "NEZHA_RAILS")
    advance = step("rails", len(names)) if first else None
    found = []
    for number, name in enumerate(names):
        spec = replace(request.spec(number), rates=surrounding_rates())
        with nezha.init(config={**spec.config, "rails": f"={name}"}) as world:
            found.append(measure(world, spec))
        if advance is not None:
            advance(found[-1])
    if not first:
        return None
    lab = surrounding_lab()
    request = replace(request, nodes=ranks, rails=names)
    return document(request, found, lab_facts(lab) if lab else None)


def document(request: Request, found: List[RailMatrix],
             lab: Optional[Dict[str, Any]]) -> Dict[str, Any]:
    """The JSON: a matrix of each kind for each rail, and what is slow."""
    return {"config": {"schema": _SCHEMA, "ranks": request.nodes, "rails": request.rails,
                       "size": request.size, "seconds": request.seconds,
                       "options": request.spec(0).config, "lab": lab},
            "rails": [_rail(each) for each in found],
            "wrong": sum(each.wrong for each in found)}


def _rail(found: RailMatrix) -> Dict[str, Any]:
    ports, hosts = found.ports, found.host_of
    one_way = p2p_matrix.slow_cells(found.one_way, hosts)
    known = {(cell.sender, cell.receiver) for cell in one_way}
    both = p2p_matrix.slow_cells(found.both_ways, hosts)
    news = [cell for cell in both
            if not known & {(cell.sender, cell.receiver), (cell.receiver, cell.sender)}]
    latency = p2p_matrix.slow_cells(found.latency, hosts, is_time=True)
    kinds = (("one_way_gbps", one_way, 8e-9), ("both_ways_gbps", both, 8e-9),
             ("latency_us", latency, 1e6))
    return {
        "rail": found.rail,
        "ports": [{"rank": rank, "host": port.host, "host_number": hosts[rank], "device": port.device,
                   "advertised_gbps": port.rate * 8e-9 if port.rate else None}
                  for rank, port in enumerate(ports)],
        "one_way_gbps": p2p_matrix.gbps_matrix(found.one_way, found.copy),
        "both_ways_gbps": p2p_matrix.gbps_matrix(found.both_ways, found.copy),
        "latency_us": [[None if a == b else 1e6 * value for b, value in enumerate(row)]
                       for a, row in enumerate(found.latency)],
        "of_advertised": p2p_matrix.of_rate(found.one_way, ports, hosts),
        "of_advertised_both_ways": p2p_matrix.of_rate(found.both_ways, ports, hosts, 2),
        "slow": [p2p_matrix.as_dict(cell, what, scale) for what, cells, scale in kinds for cell in cells],
        "sentences": [*p2p_matrix.sentences(one_way, ports, hosts, "rate one way", _gbit, False),
                      *p2p_matrix.sentences(news, ports, hosts, "rate both ways", _gbit),
                      *p2p_matrix.sentences(latency, ports, hosts, "latency", _us)],
    }


def _gbit(rate: float) -> str:
    return f"{8e-9 * rate:.3f} Gbit/s"


def _us(seconds: float) -> str:
    return f"{1e6 * seconds:.1f} us"
