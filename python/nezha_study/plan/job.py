"""`nezha plan job`: what an iteration computes, sends and waits for. Pure.

Sources: the TFLOP of an iteration from BigScience's BLOOM-176B document and Machine Learning
Engineering, chapter Network; memory from its chapter Performance; the sources of the traffic stand
in traffic.py.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Dict, List, Optional, Tuple

from .job_spec import Job
from .published import data
from .traffic import (Level, Operation, Time, Timing, between_nodes, operations, pipeline_time,
                      second_rail, tensor_time, timing)


def tflop(job: Job) -> float:
    """TFLOP that one accelerator computes in an iteration: params x k x 2 x tokens / accelerators,
    k = 3 for a forward and a backward pass, 4 where the forward pass runs again (recompute)."""
    passes = 4 if job.recompute else 3
    return job.params * passes * 2 * job.seq * job.batch / job.world / 1e12


def compute_seconds(job: Job) -> float:
    """TFLOP / (peak x MFU)."""
    return tflop(job) / (job.peak_tflops * job.mfu)


def bubble_seconds(job: Job) -> float:
    """What a pipeline stands still in an iteration: (p - 1) / m of the computing."""
    return compute_seconds(job) * (job.pipeline - 1) / job.micro_batches


def window_seconds(job: Job) -> float:
    """For how long gradients and parameters can travel while the accelerators compute.

    Gradients exist from the backward pass on: 2/3 of the computing, 3/4 with recompute; up to stage
    1 of ZeRO in the last micro batch only. From stage 1 on parameters travel in the forward pass,
    too: all of it.
    """
    computing = compute_seconds(job)
    if job.overlap is not None:
        return job.overlap * computing
    backward = 3 / 4 if job.recompute else 2 / 3
    part = backward if job.zero == 0 else 1.0
    return part * computing / (job.micro_batches if job.zero < 2 else 1)


@dataclass(frozen=True)
class Memory:
    """Bytes of weights, gradients and optimizer, without activations: of a parameter, of one
    accelerator."""

    per_parameter: float
    per_accelerator: float


def memory(job: Job) -> Memory:
    """Model states with AdamW; ZeRO's stages divide optimizer (1), gradients (2) and weights (3)."""
    precision = "float32" if job.dtype == "fp32" else "mixed"
    parts: Dict[str, float] = data("assumptions")["memory_bytes"][precision]
    states = parts["optimizer"] + parts["master_weights"]
    own = (states / (job.replicas if job.zero >= 1 else 1)
           + parts["gradients"] / (job.replicas if job.zero >= 2 else 1)
           + parts["weights"] / (job.replicas if job.zero >= 3 else 1))
    return Memory(sum(parts.values()), own * job.params / (job.tensor * job.pipeline))


def data_time(job: Job) -> Time:
    """All data-parallel collectives of an iteration, one after the other."""
    total = Time()
    for operation in operations(job):
        total = total.plus(timing(job, operation).time.times(operation.repeats))
    return total


def exposed_seconds(job: Job) -> float:
    """What of data_time the window does not hide."""
    return max(0.0, data_time(job).total_s - window_seconds(job))


@dataclass(frozen=True)
class Iteration:
    """Seconds of one iteration by what it waits for; `bottleneck` in words."""

    computing: float
    bubble: float
    tensor: float
    pipeline: float
    exposed: float
    bottleneck: str

    @property
    def total(self) -> float:
        """All of them together."""
        return self.computing + self.bubble + self.tensor + self.pipeline + self.exposed


def iteration(job: Job) -> Iteration:
    """Tensor and pipeline traffic is taken to be waited for, the rest beyond the window."""
    parts = (compute_seconds(job), bubble_seconds(job), tensor_time(job)[1].total_s,
             pipeline_time(job)[1].total_s, exposed_seconds(job))
    waits = {
        "the pipeline's bubble: more micro batches make it smaller": parts[1],
        "the links inside the node, by tensor groups": parts[2],
        "the pipeline's transfers between stages": parts[3],
        _limit(job): parts[4],
    }
    name, longest = max(waits.items(), key=lambda item: item[1])
    total = sum(parts)
    if longest < 0.05 * total:
        name = f"the accelerators: they compute {100 * parts[0] / total:.0f} % of the time"
    else:
        name += f"; {100 * longest / total:.0f} % of the iteration"
    return Iteration(*parts, bottleneck=name)


def _limit(job: Job) -> str:
    """Which level and which part of it the longest data-parallel operation waits for."""
    timings = [(timing(job, each), each.repeats) for each in operations(job)]
    if not timings:
        return "nothing between replicas"
    longest = max(timings, key=lambda pair: pair[0].time.total_s * pair[1])[0]
    inside = longest.inside.time.total_s if longest.inside else 0.0
    outside = longest.outside.time.total_s if longest.outside else 0.0
    where = "the network between nodes" if outside >= inside else "the links inside the node"
    level = longest.outside if outside >= inside else longest.inside
    time = level.time if level else Time()
    if time.adds_s > max(time.latency_s, time.transfer_s):
        return "the processors that add what comes from other nodes"
    return where + (", its latency" if time.latency_s > time.transfer_s else ", its bandwidth")


def by_algorithm(job: Job, operation: Operation) -> List[Tuple[str, Time, float, str]]:
    """(algorithm between nodes, time of all repeats, exposed seconds with it, why it is left out)
    of each algorithm of the catalog; empty where no network takes part."""
    if job.replica_nodes == 1:
        return []
    first = timing(job, operation)
    part = operation.size / first.buckets / job.replicas_in_node
    rest = data_time(job).total_s - first.time.total_s * operation.repeats
    rows = []
    for cost in between_nodes(job, operation.collective, part).costs:
        time = timing(job, operation, cost.algorithm).time.times(operation.repeats)
        exposed = max(0.0, rest + time.total_s - window_seconds(job))
        rows.append((cost.algorithm, time, exposed, cost.left_out))
    return rows


def in_network(job: Job) -> Optional[Tuple[float, Time]]:
    """(factor on the wire between nodes, time) of an all-reduce that switches add up: every byte
    crosses a node's wire once each way instead of 2 (n - 1) / n times, in two messages. None
    without such an operation."""
    found = operations(job)
    if job.replica_nodes == 1 or not found or found[0].collective != "all_reduce":
        return None
    own = timing(job, found[0])
    part = found[0].size / own.buckets / job.replicas_in_node
    level = Level("switches", Time(2 * job.latency_s, part / job.outside()).times(own.buckets))
    nodes = job.replica_nodes
    return 2 * (nodes - 1) / nodes, Timing(own.buckets, own.inside, level).time


@dataclass(frozen=True)
class Hidden:
    """The least that hides all data-parallel traffic: NICs of the present rate, or bytes per second
    of a node (advertised); None where no number does, and why."""

    nics: Optional[int]
    rate: Optional[float]
    why: str


def hidden_with(job: Job) -> Optional[Hidden]:
    """What would hide the traffic; None where no network takes part."""
    if job.replica_nodes == 1 or job.nics is None:
        return None
    alone = replace(job, second=None)
    endless = exposed_seconds(replace(alone, nics=(1, 1e15)))
    if endless > 0:
        return Hidden(None, None, f"with an endless network {endless:.3g} s would still be "
                                  "exposed: latency, adding and the links inside the node take longer "
                                  "than the window")
    least, most = 1.0, 1e15
    while most > least * 1.0005:
        middle = (least * most) ** 0.5
        if exposed_seconds(replace(alone, nics=(1, middle))) > 0:
            least = middle
        else:
            most = middle
    count = -(-most // job.nics[1])
    while count > 1 and exposed_seconds(replace(alone, nics=(int(count) - 1, job.nics[1]))) == 0:
        count -= 1
    return Hidden(int(count), most, "")


@dataclass(frozen=True)
class SecondRail:
    """What the second rail brings. threshold_bytes: Eq. 1, for one accelerator's part of a bucket
    (None: no size); part_bytes: that part; splits: whether the balancer uses both; ratio: how many
    times slower the slower rail is; limit: below which it helps (None: always); before and after:
    data_time without and with it."""

    threshold_bytes: Optional[float]
    part_bytes: float
    shares: List[float]
    splits: bool
    ratio: float
    limit: Optional[float]
    before: float
    after: float
    why: str


def second(job: Job) -> Optional[SecondRail]:
    """The answer about the second rail; None where there is none, or nothing to send between nodes."""
    found = operations(job)
    if job.second is None or job.nics is None or job.replica_nodes == 1 or not found:
        return None
    part = found[0].size / timing(job, found[0]).buckets / job.replicas_in_node
    division = second_rail(job, part)
    if division is None:
        return None
    rates = sorted((job.nics[0] * job.nics[1], job.second[0]))
    return SecondRail(division.threshold_bytes, part, division.shares, division.splits,
                      rates[1] / rates[0], division.slower_helps_below,
                      data_time(replace(job, second=None)).total_s,
                      data_time(job).total_s, division.why)
