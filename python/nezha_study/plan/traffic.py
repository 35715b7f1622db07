"""What one accelerator sends in an iteration, and how long that takes. Pure.

Data-parallel collectives go in two levels: over the accelerators of a node that share a group, by
ring, and over the nodes, each accelerator with its part of the vector and its part of the node's
NICs. Buckets follow each other, and the levels work on different buckets at the same time: the
slower level counts in full, the other one for a single bucket.

Sources: S. Rajbhandari et al., ZeRO, SC 2020, section 7 (what the stages send); M. Shoeybi et al.,
Megatron-LM, 2019, and V. Korthikanti et al., 2022 (four all-reduces of a layer's activations, two
more where the forward pass runs again); D. Narayanan et al., SC 2021 (pipeline: activations and
their gradients between stages, bubble (p - 1) / m). Costs of the collectives: the library's
catalog.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import List, Optional, Tuple

from .job_spec import Job
from .library import ADDS_FOR_FREE, Comparison, Division, compare, divide


@dataclass(frozen=True)
class Time:
    """Seconds of messages whatever their size, of bytes on the wire, and of adding."""

    latency_s: float = 0.0
    transfer_s: float = 0.0
    adds_s: float = 0.0

    @property
    def total_s(self) -> float:
        """Seconds in all."""
        return self.latency_s + self.transfer_s + self.adds_s

    def times(self, factor: float) -> Time:
        """So many one after the other."""
        return Time(factor * self.latency_s, factor * self.transfer_s, factor * self.adds_s)

    def plus(self, other: Time) -> Time:
        """Both one after the other."""
        return Time(self.latency_s + other.latency_s, self.transfer_s + other.transfer_s,
                    self.adds_s + other.adds_s)


@dataclass(frozen=True)
class Operation:
    """A data-parallel collective of an iteration. size: bytes of the whole vector of one
    accelerator."""

    collective: str
    what: str
    size: float
    repeats: int


def operations(job: Job) -> List[Operation]:
    """The data-parallel collectives of one iteration, by ZeRO's stage; none where there is one replica.

    Without accumulation of reduced gradients (stages 2 and 3) every micro batch reduces; stage 3
    gathers the parameters for each forward and each backward pass.
    """
    if job.replicas == 1:
        return []
    own = job.params / (job.tensor * job.pipeline)
    gradients, parameters = own * job.gradient_bytes, own * job.parameter_bytes
    if job.zero == 0:
        return [Operation("all_reduce", "gradients", gradients, 1)]
    reduces = job.micro_batches if job.zero >= 2 else 1
    gathers = 2 * job.micro_batches if job.zero == 3 else 1
    return [Operation("reduce_scatter", "gradients", gradients, reduces),
            Operation("all_gather", "parameters", parameters, gathers)]


@dataclass(frozen=True)
class Level:
    """One level of one operation: all its buckets, by the algorithm named."""

    algorithm: str
    time: Time


@dataclass(frozen=True)
class Timing:
    """One operation, once. buckets: how many; inside, outside: its levels, None where there is
    nobody else."""

    buckets: int
    inside: Optional[Level]
    outside: Optional[Level]

    @property
    def time(self) -> Time:
        """The slower level, and one bucket of the other."""
        levels = sorted((level.time for level in (self.inside, self.outside) if level),
                        key=lambda time: -time.total_s)
        return levels[0].plus(levels[1].times(1 / self.buckets)) if len(levels) == 2 else levels[0]


@lru_cache(maxsize=4096)
def timing(job: Job, operation: Operation, algorithm: Optional[str] = None) -> Timing:
    """How long `operation` takes once. algorithm: between nodes; None: the cheapest of the catalog
    that the library chooses by itself."""
    buckets = max(1, math.ceil(operation.size / job.bucket()))
    bucket = operation.size / buckets
    inside = outside = None
    if job.replicas_in_node > 1:
        inside = Level("ring", _inside(job, operation.collective, bucket).times(buckets))
    if job.replica_nodes > 1:
        name, once = _outside(job, operation.collective, bucket / job.replicas_in_node, algorithm)
        outside = Level(name, once.times(buckets))
    return Timing(buckets, inside, outside)


def _inside(job: Job, collective: str, size: float) -> Time:
    parts = ("reduce_scatter", "all_gather") if collective == "all_reduce" else (collective,)
    total = Time()
    for part in parts:
        cost = compare(part, round(size), job.replicas_in_node, job.inside(job.replicas_in_node),
                       job.intra_latency_s, reduce_rate=ADDS_FOR_FREE).of("ring")
        total = total.plus(Time(cost.latency_s, cost.transfer_s))
    return total


def _outside(job: Job, collective: str, size: float, algorithm: Optional[str]) -> Tuple[str, Time]:
    costs = between_nodes(job, collective, size)
    cost = costs.of(algorithm) if algorithm else costs.best
    division = second_rail(job, size)
    split_s = division.split_cost_s if division and division.splits else 0.0
    adds_s = cost.reduce_s if job.adds else 0.0
    return cost.algorithm, Time(cost.latency_s + split_s, cost.transfer_s, adds_s)


def between_nodes(job: Job, collective: str, size: float) -> Comparison:
    """Every algorithm over the nodes of a data-parallel group; `size`: bytes of one accelerator's
    part."""
    rate, latency_s = job.outside(), job.latency_s
    division = second_rail(job, size)
    if division and division.splits and job.second:
        lost_first, lost_second = job.rate_lost
        first = rate * (1 - lost_first)
        other = _second_share(job)[0] * (1 - lost_second)
        rate = first + other
        latency_s = (first * job.latency_s + other * job.second[1]) / rate
    elif division and division.single_rail == 1 and job.second:
        rate, latency_s = _second_share(job)
    return compare(collective,
                   round(size),
                   job.replica_nodes,
                   rate,
                   latency_s,
                   reduce_rate=job.adds or ADDS_FOR_FREE)


def _second_share(job: Job) -> Tuple[float, float]:
    rate, latency_s = job.second or (0.0, 0.0)
    return rate * job.efficiency / job.gpus, latency_s


def second_rail(job: Job, size: float) -> Optional[Division]:
    """How the balancer divides `size` bytes between the NICs and the second rail; None where there
    is none."""
    if job.second is None or not job.nics:
        return None
    rails = [(job.outside(), job.latency_s), _second_share(job)]
    lost = [[0.0, job.rate_lost[0]], [job.rate_lost[1], 0.0]]
    return divide(round(size), rails, None, lost)


def tensor_time(job: Job) -> Tuple[float, Time]:
    """(bytes sent by one accelerator, time) of the tensor groups in an iteration."""
    if job.tensor == 1:
        return 0.0, Time()
    times = (6 if job.recompute else 4) * (job.layers or 0) // job.pipeline * job.micro_batches
    size = activation_bytes(job)
    cost = compare("all_reduce", round(size), job.tensor, job.inside(job.tensor), job.intra_latency_s,
                   reduce_rate=ADDS_FOR_FREE).of("ring")
    return times * cost.bytes_factor * size, Time(cost.latency_s, cost.transfer_s).times(times)


def pipeline_time(job: Job) -> Tuple[float, Time]:
    """(bytes sent by one accelerator, time) of the pipeline in an iteration: activations one way, their
    gradients the other, of every micro batch."""
    if job.pipeline == 1:
        return 0.0, Time()
    times, size = 2 * job.micro_batches, activation_bytes(job)
    leaves_node = job.nodes > 1  # at least one boundary does, and the slowest sets the pace
    rate = job.outside() if leaves_node else job.inside(2)
    latency_s = job.latency_s if leaves_node else job.intra_latency_s
    return times * size, Time(latency_s, size / rate).times(times)


def activation_bytes(job: Job) -> float:
    """Of one micro batch between two layers: sequences x tokens x hidden x bytes."""
    return float(job.one_batch * job.seq * (job.hidden or 0) * job.parameter_bytes)
