"""Measures the operations that a calibration is fitted to: in labs, or in the world of this process."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from statistics import median
from typing import Any, Callable, Dict, Iterator, List, Optional, Sequence, Tuple

import numpy as np

from nezha_tools.cli.errors import BenchError
from nezha_tools.bench.lab_runner import BenchLab
from nezha_tools.bench.measure import measure
from nezha_tools.cli.progress import Step
from nezha_tools.bench.spec import BenchSpec, Sample
from nezha_tools.bench.lab_facts import lab_facts, surrounding_lab
from nezha_tools.lab import shaping
from ..plan.library import ask
from .calibration import Inside, RailFacts
from .fit import Point, inside

_PAYLOAD = 1448 / 1514  # of a frame of 1,500 bytes, which a bucket counts with its headers
_VETH = 10e9 / 8  # what a lab's devices are advertised with
_ADDED = ("float64", "float32", "float16", "bfloat16", "int32")
_SHORT = 96  # bytes of the operation that shows what a message costs a processor
_PATIENCE_SECONDS = 3600.0  # of ranks that do not measure


@dataclass
class Request:
    """What to measure. learn: bytes of an operation that goes before, from which the library learns the
    rates of the rails (src/rails/rail_monitor.h wants 64 KiB that queue)."""

    sizes: List[int]
    rails: List[str] = field(default_factory=lambda: ["1gbit", "1gbit"])
    seconds: float = 0.5
    passes: int = 1
    learn: int = 8 << 20

    def spec(self, algorithm: Optional[str], sizes: Sequence[int]) -> BenchSpec:
        """One run of all_reduce, through the rails between ranks of one host, too."""
        return BenchSpec(sizes=list(sizes), algorithm=algorithm, seconds=self.seconds, checks=1,
                         config={"shm": "off"})

    def inside(self) -> BenchSpec:
        """One run of messages between ranks of one host, in whatever carries them there."""
        return BenchSpec(collective="all_gather", algorithm="ring", sizes=[_SHORT, *self.sizes],
                         seconds=self.seconds, checks=1, in_place=False)


@dataclass
class Found:
    """What was measured. inside: None where no host has two ranks."""

    facts: List[RailFacts]
    points: List[Point]
    inside: Optional[Inside]


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
                      shaping.way(int(8 * (rate or 0)), "exact").segment)
            for (device, _, rate), burst in zip(made.devices(), bursts)]


def in_labs(request: Request, hosts: Sequence[int], ranks: int, step: Step) -> Found:
    """The rails in labs of `hosts` nodes, one after the other, and messages among `ranks` ranks of one
    node, where these are two or more."""
    points: List[Point] = []
    for count in hosts:
        facts_found, more = in_lab(request, count, step)
        points += more
    return Found(facts_found, points, _inside_in_lab(request, ranks, step) if ranks > 1 else None)


def _inside_in_lab(request: Request, ranks: int, step: Step) -> Inside:
    spec = request.inside()
    with BenchLab(1, request.rails, ranks_per_node=ranks, shaping="exact") as made:
        advance = step(f"{ranks} ranks of a host", request.passes * len(spec.sizes))
        return _inside(ranks, [made.run(spec, advance) for _ in range(request.passes)])


def _inside(ranks: int, passes: Sequence[Sequence[Sample]]) -> Inside:
    if any(sample.wrong for samples in passes for sample in samples):
        raise BenchError(f"all_gather among {ranks} ranks of a host: wrong results")
    times = [(samples[0].size, min(median(sample.times_us) for sample in samples) / 1e6)
             for samples in zip(*passes)]
    return Inside(*inside(ranks, times), ranks)


def in_world(request: Request, step: Step,
             check: Optional[Callable[[int, int], None]] = None) -> Optional[Found]:
    """Measures between the launched ranks this process is one of, None on all but rank 0: the rails
    between the first ranks of all hosts, and messages inside the host that has most ranks. Where all
    ranks share a host, each counts as one, and the rails are the loopback. check: called with the numbers
    of hosts and rails before anything is measured; its errors end it."""
    import nezha

    with nezha.init() as comm:
        first = comm.rank == 0
        names = [rail["name"] for rail in comm.rails()]
        host_of = comm.stats()["host_of"]
    if len(host_of) < 2:
        raise BenchError("calibration needs two ranks at least, on different hosts")
    leaders = [host_of.index(host) for host in dict.fromkeys(host_of)]
    if len(leaders) == 1:
        leaders = list(range(len(host_of)))
    hosts = len(leaders)
    if check is not None:
        check(hosts, len(names))
    advance = step(f"{hosts} ranks", len(names) * (len(request.sizes) + 1) + len(request.sizes) + 1)

    def run(spec: BenchSpec, rail: Optional[int]) -> List[Sample]:
        only: Dict[str, Any] = {} if rail is None else {"rails": f"={names[rail]}"}
        with nezha.init(config={**spec.config, **only}) as world:
            return _among(world, leaders, spec, advance if first else None)

    request = replace(request, passes=1)
    points = rails_alone(run, request, hosts, len(names))
    if len(names) > 1:
        points += together(run, request, hosts, len(names))
    surrounding = surrounding_lab()
    bursts = lab_facts(surrounding)["burst_bytes"] if surrounding else [0] * len(names)
    segment = shaping.way(0, "exact").segment if surrounding else 0
    facts_found = [RailFacts(name, _advertised(name), _PAYLOAD * burst, segment)
                   for name, burst in zip(names, bursts)]
    found = Found(facts_found, points, _inside_fullest(request, host_of))
    return found if first else None


def _among(world: Any, ranks: List[int], spec: BenchSpec,
           advance: Optional[Callable[[Any], None]] = None) -> List[Sample]:
    """What some ranks of `world` measure, while the others wait; nothing on these."""
    samples: List[Sample] = []
    if world.rank in ranks:
        with world.create_group(ranks, "calibrate") as members:
            samples = measure(members, spec, advance)
    world.barrier(timeout=_PATIENCE_SECONDS)
    return samples


def _inside_fullest(request: Request, host_of: List[int]) -> Optional[Inside]:
    """On every rank what the ranks of the fullest host, the first of equals, measured."""
    import nezha

    fullest = max(host_of, key=host_of.count)
    ranks = [rank for rank, host in enumerate(host_of) if host == fullest]
    if len(ranks) < 2:
        return None
    with nezha.init() as world:
        samples = _among(world, ranks, request.inside())
        here = _inside(len(ranks), [samples]) if samples else Inside(0.0, 0.0, 0)
        told = world.all_reduce(np.array([here.rate, here.latency_s]), "max")
    return Inside(float(told[0]), float(told[1]), len(ranks))


def reduction_rates() -> Dict[str, float]:
    """Bytes per second that a processor of this host adds by the shipped kernels, by dtype."""
    return {dtype: float(ask("reduction", {"dtype": dtype})["bytes_per_s"]) for dtype in _ADDED}


def _advertised(name: str) -> Optional[float]:
    from nezha.queries import ask

    rows = ask("devices")
    speed = next((row["speed_gbps"] for row in rows if row["device"] == name), None)
    return speed * 1e9 / 8 if speed else None
