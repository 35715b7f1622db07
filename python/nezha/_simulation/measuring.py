"""Measures the operations that a calibration is fitted to: in labs, or in the world of this process."""

from __future__ import annotations

import json
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from statistics import median
from typing import Any, Callable, Dict, Iterator, List, Optional, Sequence, Tuple

from .._command_errors import BenchError
from .._bench.lab_runner import BenchLab
from .._bench.measure import measure
from .._bench.collective_run import Step
from .._bench.spec import BenchSpec, Sample
from .._bench.lab_facts import lab_facts, surrounding_lab
from ..lab import _shaping
from .._planning.library import ask
from .calibration import RailFacts
from .fit import Point

_PAYLOAD = 1448 / 1514  # of a frame of 1,500 bytes, which a bucket counts with its headers
_VETH = 10e9 / 8  # what a lab's devices are advertised with
_ADDED = ("float64", "float32", "float16", "bfloat16", "int32")
_SHORT = 96  # bytes of the operation that shows what a message costs a processor


@dataclass
class Request:
    """What to measure. learn: bytes of an operation that goes before, from which the library learns the
    rates of the rails (src/control/rail_monitor.h wants 64 KiB that queue)."""

    sizes: List[int]
    rails: List[str] = field(default_factory=lambda: ["1gbit", "1gbit"])
    seconds: float = 0.5
    passes: int = 1
    learn: int = 8 << 20

    def spec(self, algorithm: Optional[str], sizes: Sequence[int]) -> BenchSpec:
        """One run of all_reduce, through the rails between ranks of one host, too."""
        return BenchSpec(sizes=list(sizes), algorithm=algorithm, seconds=self.seconds, checks=1,
                         config={"shm": "off"})


def rails_alone(run: Callable[[BenchSpec, int], List[Sample]], request: Request, hosts: int,
                rails: int) -> List[Point]:
    """Every rail alone: a ring over all sizes, and a short operation in which everybody hears from
    everybody at once."""
    ring = request.spec("ring", request.sizes)
    short = replace(ring, collective="all_gather", algorithm="direct", sizes=[_SHORT], in_place=False)
    found = []
    for rail in range(rails):
        for spec in (ring, short):
            found += _points(spec, [run(spec, rail) for _ in range(request.passes)], hosts, (rail,))
    return found


def together(run: Callable[[BenchSpec, Optional[int]], List[Sample]], request: Request, hosts: int,
             rails: int, algorithm: Optional[str] = None) -> List[Point]:
    """All rails together, as the library divides, once it knows their rates."""
    spec = request.spec(algorithm, [request.learn, *request.sizes])
    found = [run(spec, None)[1:] for _ in range(request.passes)]
    return _points(replace(spec, sizes=request.sizes), found, hosts, tuple(range(rails)))


def _points(spec: BenchSpec, passes: Sequence[Sequence[Sample]], hosts: int,
            rails: Tuple[int, ...]) -> List[Point]:
    """The quickest pass of each size: a busy host only slows."""
    found = []
    for samples in zip(*passes):
        if any(sample.wrong for sample in samples):
            raise BenchError(f"{spec.collective} of {samples[0].size} B on rails {rails}: wrong results")
        seconds = min(median(sample.times_us) for sample in samples) / 1e6
        found.append(Point(hosts, rails, spec.collective, spec.algorithm or "auto", samples[0].size,
                           seconds))
    return found


def in_lab(request: Request, hosts: int, step: Step) -> Tuple[List[RailFacts], List[Point]]:
    """Builds a lab of `hosts` nodes, measures every rail alone and all together, removes the lab."""
    with lab(request, hosts) as made:
        count = len(request.rails)
        runs = request.passes * (count * (len(request.sizes) + 1) + len(request.sizes) + 1)
        advance = step(f"{hosts} hosts", runs)

        def run(spec: BenchSpec, rail: Optional[int]) -> List[Sample]:
            return made.run(spec, advance, rail)

        points = rails_alone(run, request, hosts, count)
        if count > 1:
            points += together(run, request, hosts, count)
        return facts(made), points


@contextmanager
def lab(request: Request, hosts: int) -> Iterator[BenchLab]:
    """A lab with the request's rails and exact wires."""
    with BenchLab(hosts, request.rails, shaping="exact") as made:
        yield made


def facts(made: BenchLab) -> List[RailFacts]:
    """Names, advertised rates, buckets and segments of a lab's rails."""
    bursts = made.facts()["burst_bytes"]
    return [RailFacts(device, _VETH, _PAYLOAD * burst,
                      _shaping.way(int(8 * (rate or 0)), "exact").segment)
            for (device, _, rate), burst in zip(made.devices(), bursts)]


def in_world(request: Request, step: Step) -> Optional[Tuple[List[RailFacts], List[Point]]]:
    """Measures between the launched ranks this process is one of; None on all but rank 0."""
    import nezha

    with nezha.init() as comm:
        first, hosts = comm.rank == 0, comm.world_size
        names = [rail["name"] for rail in comm.rails()]
    if hosts < 2:
        raise BenchError("calibration needs two ranks at least, on different hosts")
    advance = step(f"{hosts} ranks", len(names) * (len(request.sizes) + 1) + len(request.sizes) + 1)

    def run(spec: BenchSpec, rail: Optional[int]) -> List[Sample]:
        only: Dict[str, Any] = {} if rail is None else {"rails": f"={names[rail]}"}
        with nezha.init(config={**spec.config, **only}) as world:
            return measure(world, spec, advance if first else None)

    request = replace(request, passes=1)
    points = rails_alone(run, request, hosts, len(names))
    if len(names) > 1:
        points += together(run, request, hosts, len(names))
    surrounding = surrounding_lab()
    bursts = lab_facts(surrounding)["burst_bytes"] if surrounding else [0] * len(names)
    segment = _shaping.way(0, "exact").segment if surrounding else 0
    facts_found = [RailFacts(name, _advertised(name), _PAYLOAD * burst, segment)
                   for name, burst in zip(names, bursts)]
    return (facts_found, points) if first else None


def reduction_rates() -> Dict[str, float]:
    """Bytes per second that a processor of this host adds by the shipped kernels, by dtype."""
    return {dtype: float(ask("reduction", {"dtype": dtype})["bytes_per_s"]) for dtype in _ADDED}


def _advertised(name: str) -> Optional[float]:
    from .. import _native

    rows = json.loads(_native.query("devices", "{}"))
    speed = next((row["speed_gbps"] for row in rows if row["device"] == name), None)
    return speed * 1e9 / 8 if speed else None
