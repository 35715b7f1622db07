"""A training job as it is asked about: fields with units, checked; how its groups lie on the nodes.
Pure."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, Callable, Dict, List, Mapping, Optional, Tuple

from nezha_tools.cli.sizes import parse_size
from nezha_tools.cli.errors import PlanError
from nezha_tools.cli.validation import fraction, refused, whole
from .library import RANKS_MAX
from .published import Accelerator, accelerator, assumption
from nezha_tools.cli.units import (parse_flops, parse_nics, parse_parameters, parse_rails, parse_rate,
                                   parse_seconds)

DTYPE_BYTES = {"bf16": 2, "fp16": 2, "fp32": 4}
_LARGE = 1 << 40


@dataclass(frozen=True)
class Job:
    """One iteration of training a decoder-only transformer.

    params: how many; nodes x gpus accelerators; nics: (count of a node, bytes per second of each),
    advertised; accelerator and intra (bytes per second inside a node), peak_tflops: what computes
    and what connects it; dtype of the parameters, grad_dtype of the gradients on the wire; seq:
    tokens of a sequence; batch: sequences of an iteration, all accelerators together; micro_batch:
    of one accelerator at a time; zero: ZeRO stage; tensor, pipeline: sizes of these groups;
    efficiency: reached part of an advertised rate; overlap: part of the computing during which
    gradients and parameters can travel, None: as ZeRO's stage allows; second: (bytes per second,
    seconds) of a second rail of every node; rate_lost: by the first and by the second while both
    run; adds: bytes per second that a rank adds of what comes from other nodes, None: as fast as an
    accelerator, which costs nothing; nics_measured: `nics` is what they reach, and not advertised.
    """

    params: float
    nodes: int
    seq: int
    batch: int
    gpus: int = 8
    nics: Optional[Tuple[int, float]] = None
    accelerator: Optional[Accelerator] = None
    peak_tflops: float = 0.0
    intra: Optional[float] = None
    dtype: str = "bf16"
    grad_dtype: Optional[str] = None
    micro_batch: Optional[int] = None
    recompute: bool = False
    zero: int = 0
    tensor: int = 1
    pipeline: int = 1
    layers: Optional[int] = None
    hidden: Optional[int] = None
    mfu: float = assumption("mfu")
    efficiency: float = assumption("practical")
    latency_s: float = assumption("inter_latency_us") / 1e6
    intra_latency_s: float = assumption("intra_latency_us") / 1e6
    bucket_bytes: Optional[int] = None
    overlap: Optional[float] = None
    second: Optional[Tuple[float, float]] = None
    rate_lost: Tuple[float, float] = (0.0, 0.0)
    adds: Optional[float] = None
    nics_measured: bool = False

    @property
    def world(self) -> int:
        """All accelerators."""
        return self.nodes * self.gpus

    @property
    def replicas(self) -> int:
        """How many copies of the model there are: the size of a data-parallel group."""
        return self.world // (self.tensor * self.pipeline)

    @property
    def replicas_in_node(self) -> int:
        """How many members of a data-parallel group share a node."""
        return min(self.replicas, self.gpus // self.tensor)

    @property
    def replica_nodes(self) -> int:
        """Over how many nodes a data-parallel group reaches."""
        return self.replicas // self.replicas_in_node

    @property
    def one_batch(self) -> int:
        """Sequences that one replica takes at a time."""
        if self.micro_batch is not None:
            return self.micro_batch
        return self.batch // self.replicas if self.pipeline == 1 else 1

    @property
    def micro_batches(self) -> int:
        """How many of them an iteration has."""
        return self.batch // (self.replicas * self.one_batch)

    @property
    def parameter_bytes(self) -> int:
        """Of one parameter."""
        return DTYPE_BYTES[self.dtype]

    @property
    def gradient_bytes(self) -> int:
        """Of one gradient on the wire."""
        return DTYPE_BYTES[self.grad_dtype or self.dtype]

    def bucket(self) -> float:
        """Bytes of one data-parallel collective: as given, else as the programs of ZeRO's stage
        have it."""
        if self.bucket_bytes is not None:
            return self.bucket_bytes
        if self.zero == 0:
            return assumption("bucket_bytes")
        return assumption("zero_bucket_elements") * self.gradient_bytes

    def inside(self, group: int) -> float:
        """Bytes per second that an accelerator reaches towards `group` of its node, the 80 % rule
        applied."""
        rate = self.intra if self.intra or not self.accelerator else self.accelerator.rate_among(group)
        return (rate or 0.0) * self.efficiency

    def outside(self) -> float:
        """Bytes per second between nodes that one accelerator has when all of its node send, the
        rule applied to what is advertised."""
        count, rate = self.nics or (0, 0.0)
        return count * rate * (1.0 if self.nics_measured else self.efficiency) / self.gpus


_Reader = Callable[[str, Any], Any]


def _whole(least: int, most: int) -> _Reader:
    return lambda field, value: whole(field, value, least, most)


def _dtype(field: str, value: Any) -> str:
    if value not in DTYPE_BYTES:
        raise refused(field, value, "one of " + ", ".join(DTYPE_BYTES))
    return str(value)


def _flag(field: str, value: Any) -> bool:
    if not isinstance(value, bool):
        raise refused(field, value, "true or false")
    return value


def _bucket(field: str, value: Any) -> int:
    try:
        size = parse_size(str(value))
    except ValueError as error:
        raise PlanError(f"{field}: {error}") from None
    return whole(field, size, 4, 1 << 36)


def _second(field: str, value: Any) -> Tuple[float, float]:
    rails = parse_rails(field, str(value))
    if len(rails) != 1:
        raise refused(field, value, "one RATE:LATENCY, such as 100Gbit/s:20us")
    return rails[0]


def _lost(field: str, value: Any) -> Tuple[float, float]:
    allowed = "two numbers from 0 to less than 1, such as 0.27,0.05"
    try:
        first, second = (float(part) for part in str(value).split(","))
    except ValueError:
        raise refused(field, value, allowed) from None
    if not (0 <= first < 1 and 0 <= second < 1):
        raise refused(field, value, allowed)
    return first, second


# Name in a file and, with dashes, on the command line -> (field of Job, how it is read).
READERS: Dict[str, Tuple[str, _Reader]] = {
    "params": ("params", parse_parameters),
    "nodes": ("nodes", _whole(1, RANKS_MAX)),
    "gpus": ("gpus", _whole(1, 1024)),
    "nics": ("nics", parse_nics),
    "accelerator": ("accelerator", lambda _, value: accelerator(value)),
    "peak": ("peak_tflops", parse_flops),
    "intra": ("intra", parse_rate),
    "dtype": ("dtype", _dtype),
    "grad_dtype": ("grad_dtype", _dtype),
    "seq": ("seq", _whole(1, _LARGE)),
    "batch": ("batch", _whole(1, _LARGE)),
    "micro_batch": ("micro_batch", _whole(1, _LARGE)),
    "recompute": ("recompute", _flag),
    "zero": ("zero", _whole(0, 3)),
    "tensor": ("tensor", _whole(1, 1024)),
    "pipeline": ("pipeline", _whole(1, RANKS_MAX)),
    "layers": ("layers", _whole(1, 100000)),
    "hidden": ("hidden", _whole(1, _LARGE)),
    "mfu": ("mfu", lambda field, value: fraction(field, value, False)),
    "efficiency": ("efficiency", lambda field, value: fraction(field, value, False)),
    "latency": ("latency_s", parse_seconds),
    "intra_latency": ("intra_latency_s", parse_seconds),
    "bucket": ("bucket_bytes", _bucket),
    "overlap": ("overlap", lambda f, value: fraction(f, value, True)),
    "second": ("second", _second),
    "interference": ("rate_lost", _lost),
    "adds": ("adds", parse_rate),
}


def read_job(given: Mapping[str, Any]) -> Job:
    """The job of these fields (the keys of READERS). Raises PlanError that names a field and what
    it may be."""
    values: Dict[str, Any] = {}
    for name, value in given.items():
        field, reader = READERS[name]
        values[field] = reader(name, value)
    for name in ("params", "nodes", "seq", "batch"):
        if name not in values:
            raise PlanError(f"{name} is missing: a job needs params, nodes, seq and batch")
    chip = values.get("accelerator")
    if "peak_tflops" not in values:
        if chip is None or chip.bf16_tflops is None:
            raise PlanError("peak is missing: give an accelerator whose peak is known, or peak, "
                            "such as 312TFLOPS")
        values["peak_tflops"] = chip.bf16_tflops
    if chip is None and "intra" not in values and values.get("gpus", 8) > 1:
        raise PlanError("intra is missing: give an accelerator, or the rate inside a node, such as "
                        "300GB/s")
    if "nics" not in values and values["nodes"] > 1:
        raise PlanError("nics is missing: more than one node needs a network, such as 8x400Gbit/s")
    job = Job(**values)
    _check_groups(job)
    return job


def _check_groups(job: Job) -> None:
    if job.gpus % job.tensor:
        raise refused("tensor", job.tensor, f"a divisor of gpus, {job.gpus}: such groups stay "
                                            "inside a node")
    if job.world % (job.tensor * job.pipeline):
        raise refused("pipeline", job.pipeline, f"a divisor of {job.world // job.tensor}, the "
                                                "accelerators divided by tensor")
    if job.replicas % job.replicas_in_node or (job.gpus // job.tensor) % job.replicas_in_node:
        raise refused("pipeline", job.pipeline, "such that stages fill whole nodes (divide nodes, "
                                                f"{job.nodes}) or share one evenly")
    if job.batch % (job.replicas * (job.micro_batch or 1)):
        raise refused("batch", job.batch, f"a multiple of {job.replicas * (job.micro_batch or 1)}: "
                                          f"there are {job.replicas} replicas, each with micro "
                                          f"batches of {job.micro_batch or 1}")
    if (job.tensor > 1 or job.pipeline > 1) and not (job.layers and job.hidden):
        raise PlanError("layers and hidden are missing: the traffic of tensor and pipeline groups "
                        "follows from them")
    if job.layers and job.layers % job.pipeline:
        raise refused("layers", job.layers, f"a multiple of pipeline, {job.pipeline}")


def defaults_of(given: Mapping[str, Any], job: Job) -> List[str]:
    """The names of Job's fields that nobody gave, so that an answer can say what it assumes."""
    fields_given = {READERS[name][0] for name in given}
    return [each.name for each in fields(job) if each.name not in fields_given]
