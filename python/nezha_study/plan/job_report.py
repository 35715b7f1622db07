"""The answer of `nezha plan job` as JSON: seconds, bytes, bytes per second. Pure."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Callable, Dict, List, Mapping, Optional

from . import job as answers
from .job_spec import Job, defaults_of
from .rule_of_thumb import rule_of_thumb
from .published import data
from .traffic import operations, pipeline_time, tensor_time, timing
from nezha_tools.cli.units import bytes_text


KnownAs = Callable[[str, int, int], str]  # of a collective over so many nodes, of so many bytes


def report(job: Job, given: Mapping[str, Any],
           known_as: KnownAs = lambda collective, nodes, size: "extrapolated") -> Dict[str, Any]:
    """Everything about `job`; `given`: the fields that somebody gave or measured, the others are named as
    assumed."""
    memory, thumb = answers.memory(job), rule_of_thumb(job)
    capacity = job.accelerator.memory if job.accelerator else None
    return {
        "accelerators": job.world, "rates": "measured" if job.nics_measured else "advertised",
        "replicas": job.replicas,
        "micro_batch": job.one_batch,
        "micro_batches": job.micro_batches,
        "memory": {
            "bytes_per_parameter": memory.per_parameter, "per_accelerator": memory.per_accelerator,
            "of": capacity, "fits": capacity is None or memory.per_accelerator < capacity
        },
        "compute": {
            "tflop": answers.tflop(job), "peak_tflops": job.peak_tflops, "mfu": job.mfu,
            "seconds": answers.compute_seconds(job)
        },
        "iteration": _iteration(job),
        "traffic": _traffic(job, known_as),
        "data_parallel": {
            "seconds": answers.data_time(job).total_s, "window": answers.window_seconds(job),
            "exposed": answers.exposed_seconds(job)
        },
        "algorithms": _algorithms(job),
        "hidden_with": _hidden(job),
        "in_network": _in_network(job),
        "second_rail": _second(job),
        "rule_of_thumb": {
            "bytes": thumb.size, "between_s": thumb.between_s, "practical_s": thumb.practical_s,
            "inside_s": thumb.inside_s, "slower": thumb.slower
        },
        "assumptions": assumptions(job, given),
    }


def _iteration(job: Job) -> Dict[str, Any]:
    found = answers.iteration(job)
    parts = {
        "computing": found.computing, "pipeline bubble": found.bubble,
        "tensor groups": found.tensor, "pipeline transfers": found.pipeline,
        "data parallel, exposed": found.exposed
    }
    return {
        "parts": {
            name: seconds
            for name, seconds in parts.items() if seconds > 0 or name == "computing"
        }, "total": found.total, "bottleneck": found.bottleneck
    }


def _traffic(job: Job, known_as: KnownAs) -> List[Dict[str, Any]]:
    rows = []
    for each in operations(job):
        once = timing(job, each)
        time = once.time.times(each.repeats)
        factor = (job.replicas - 1) / job.replicas * (2 if each.collective == "all_reduce" else 1)
        levels = [f"{level.algorithm} {where}" for level, where in
                  ((once.inside, f"over {job.replicas_in_node} in a node"),
                   (once.outside, f"over {job.replica_nodes} nodes")) if level]
        rows.append({
            "what": f"{each.collective} of {each.what}", "bytes": factor * each.size * each.repeats,
            "seconds": time.total_s, "latency_s": time.latency_s, "transfer_s": time.transfer_s,
            "adds_s": time.adds_s,
            "known_as": known_as(each.collective, job.replica_nodes,
                                 round(each.size / once.buckets / job.replicas_in_node)),
            "how": f"{each.repeats} x {once.buckets} bucket(s), " + ", ".join(levels)})
    for what, (size, time) in (("tensor groups, all_reduce of activations", tensor_time(job)),
                               ("pipeline, activations and their gradients", pipeline_time(job))):
        if size:
            rows.append({
                "what": what, "bytes": size, "seconds": time.total_s, "latency_s": time.latency_s,
                "transfer_s": time.transfer_s, "adds_s": time.adds_s,
                "known_as": "extrapolated", "how": "waited for"
            })
    return rows


def _algorithms(job: Job) -> List[Dict[str, Any]]:
    tables = []
    for each in operations(job):
        rows = [{"algorithm": name, "latency_s": time.latency_s, "transfer_s": time.transfer_s,
                 "adds_s": time.adds_s, "seconds": time.total_s, "exposed": exposed, "left_out": why}
                for name, time, exposed, why in answers.by_algorithm(job, each)]
        if rows:
            tables.append({"collective": each.collective, "what": each.what, "rows": rows})
    return tables


def _hidden(job: Job) -> Optional[Dict[str, Any]]:
    found = answers.hidden_with(job)
    if found is None or job.nics is None:
        return None
    return {"nics": found.nics, "rate": found.rate, "of": job.nics[1], "why": found.why}


def _in_network(job: Job) -> Optional[Dict[str, Any]]:
    found = answers.in_network(job)
    if found is None:
        return None
    return {
        "factor": found[0], "seconds": found[1].total_s,
        "instead_of": answers.data_time(replace(job, second=None)).total_s
    }


def _second(job: Job) -> Optional[Dict[str, Any]]:
    found = answers.second(job)
    if found is None:
        return None
    return {
        "threshold_bytes": found.threshold_bytes, "part_bytes": found.part_bytes,
        "shares": found.shares, "splits": found.splits, "ratio": found.ratio,
        "helps_below": found.limit, "before": found.before, "after": found.after, "why": found.why
    }


_NAMES = {
    "mfu": "mfu {0.mfu:g} ({source[mfu]})",
    "efficiency": "{0.efficiency:g} of advertised rates are reached ({source[practical]})",
    "latency_s": "{micro:g} us a message between nodes ({source[inter_latency_us]})",
    "intra_latency_s": "{intra_micro:g} us a message inside a node ({source[intra_latency_us]})",
    "dtype": "parameters and gradients in {0.dtype}",
    "gpus": "{0.gpus} accelerators a node",
    "recompute": "no recompute: three passes a parameter and token",
}


def assumptions(job: Job, given: Mapping[str, Any]) -> List[str]:
    """What the answer takes for granted: every default with its source, and the model itself."""
    source = {name: entry["source"] for name, entry in data("assumptions").items()}
    values = {"source": source, "micro": job.latency_s * 1e6, "intra_micro": job.intra_latency_s * 1e6}
    texts = [_NAMES[name].format(job, **values) for name in defaults_of(given, job) if name in _NAMES]
    if job.accelerator and "peak" not in given:
        texts.append(f"the peak is {job.accelerator.name}'s in bf16, dense, whatever the dtype is")
    if job.bucket_bytes is None and job.replicas > 1:
        name = "zero_bucket_elements" if job.zero else "bucket_bytes"
        texts.append(f"buckets of {bytes_text(job.bucket())} ({source[name]})")
    if job.replica_nodes > 1:
        texts.append("every accelerator sends its part over its part of the node's NICs, all nodes "
                     "are equally far, and levels work on different buckets at the same time")
    if job.replica_nodes > 1 and job.adds is None:
        texts.append("adding costs nothing; on processors --adds says what it costs")
    if job.overlap is None:
        texts.append(
            "data travels while the backward pass computes, from ZeRO's stage 1 on also in the "
            "forward pass" +
            (", and up to stage 1 in the last micro batch only" if job.micro_batches > 1 else ""))
    if job.pipeline > 1:
        texts.append("one forward and one backward at a time (1F1B); every accelerator of a stage sends "
                     "the whole activations to the next one, and waits for that")
    if job.accelerator and job.accelerator.peer is None:
        texts.append(f"a pair of {job.accelerator.name} reaches all its links, which nobody says")
    return texts
