"""From samples to the rows people and programs read. Pure.

Schema of a row: sizes in bytes; times in microseconds; `*_gbps` in gigabits (1e9 bits) per second;
GB is 1e9 bytes. `of_limit` = limit_us / time_us; both null where a rail's rate is not known.
"""

from __future__ import annotations

from typing import Any, Dict, List, Mapping, Optional, Sequence

from .formulas import bus_factor, gbps, limit_seconds, median, percentile
from .spec import REDUCTIONS, BenchSpec, RailSample, Sample

Row = Dict[str, Any]
SCHEMA_NOTE = (
    "sizes and bytes in bytes; *_us in microseconds; *_gbps in gigabits (1e9 bits) per second; "
    "GB is 1e9 bytes; time_us is the median over launches of the time of all operations, back to back, "
    "on the slowest rank, divided by their number; p50_us and p99_us are over the operations of all "
    "launches, each as long as on its slowest rank; limit_us = "
    "bus factor of the hosts x size / sum of raw rail rates of a host (of an all_reduce, the rate "
    "towards an aggregation node counts bus factor times); of_limit = limit_us / time_us; "
    "rails[].bytes is the average sent per operation by all ranks together, as the library counts it "
    "for nezha and as the interfaces count it for peers; cores_given is the smallest number of "
    "processors that a rank might use, cores_used how many it kept busy on average; shaping is how the "
    "lab's wires were shaped for this size (docs/lab.md), flattery the share by which its buckets may "
    "make a rate look higher (null: they could hold the whole operation); null where not known"
)
_WIRE_OVERHEAD = 1.08  # headers and acknowledgements on top of what the library counts
_WIRE_MINIMUM = 1 << 20  # of size and of bytes: under it, headers outweigh the payload


def make_rows(spec: BenchSpec, launches: Sequence[Sequence[Sample]],
              library: str = "nezha") -> List[Row]:
    """One row a size, over all launches of the same spec."""
    return [_row(spec, [launch[index] for launch in launches], library)
            for index in range(min(len(launch) for launch in launches))]


def _row(spec: BenchSpec, samples: Sequence[Sample], library: str) -> Row:
    first = samples[0]
    pooled = [value for sample in samples for value in sample.times_us]
    time_us = median([sample.mean_us for sample in samples])
    seconds = time_us / 1e6
    limit = _limit(spec.collective, first)
    algbw = gbps(first.size, seconds)
    moved = first.size * len(pooled) / 1e9
    return {
        "size": first.size,
        "count": first.count,
        "type": spec.dtype if first.size else "none",
        "redop": spec.op if spec.collective in REDUCTIONS else "none",
        "time_us": time_us,
        "p50_us": percentile(pooled, 0.50),
        "p99_us": percentile(pooled, 0.99),
        "algbw_gbps": algbw,
        "busbw_gbps": algbw * bus_factor(spec.collective, first.ranks),
        "limit_us": limit * 1e6 if limit is not None else None,
        "of_limit": limit / seconds if limit is not None and seconds > 0 else None,
        "wrong": sum(sample.wrong for sample in samples),
        "cpu_s_per_gb": sum(sample.cpu_s for sample in samples) / moved if moved else None,
        "cores_given": first.cores or None,
        "cores_used": _cores_used(samples),
        "rails": _rail_rows(samples, len(pooled)),
        "library": library,
    }


def _limit(collective: str, sample: Sample) -> Optional[float]:
    """Least time, in seconds, in which hosts can carry it between them. A device that leads to the
    aggregation node is best used that way alone."""
    hosts = sample.hosts or sample.ranks
    node = next((rail for rail in sample.rails if rail.transport == "agg"), None)
    rates = [rail.rate for rail in sample.rails if node is None or rail.device != node.device
             if hosts == sample.ranks or rail.transport != "shm"]
    # Of all_to_all, every rank of a host has a vector of its own for the others.
    size = sample.size * (sample.ranks // hosts if collective == "all_to_all" else 1)
    return limit_seconds(collective, hosts, size, rates, node.rate if node else None)


def _cores_used(samples: Sequence[Sample]) -> Optional[float]:
    """Processors that a rank kept busy on average while operations were timed."""
    seconds = sum(sample.mean_us * len(sample.times_us) for sample in samples) / 1e6 * samples[0].ranks
    return sum(sample.cpu_s for sample in samples) / seconds if seconds > 0 else None


def _rail_rows(samples: Sequence[Sample], operations: int) -> List[Row]:
    totals = [sum(sample.rails[index].bytes for sample in samples)
              for index in range(len(samples[0].rails))]
    whole = sum(totals)
    return [{
        "name": rail.name,
        "transport": rail.transport,
        "rate_gbps": rail.rate * 8 / 1e9 if rail.rate else None,
        "bytes": total // operations,
        "share": total / whole if whole else 0.0,
    } for rail, total in zip(samples[0].rails, totals)]


def gains(rows: Sequence[Row], singles: Mapping[str, Sequence[Row]]) -> List[Optional[float]]:
    """Time of the best single rail divided by the time of all, per row; None where not measured."""
    best: Dict[int, float] = {}
    for single in singles.values():
        for row in single:
            best[row["size"]] = min(best.get(row["size"], row["time_us"]), row["time_us"])
    return [best[row["size"]] / row["time_us"] if row["size"] in best and row["time_us"] else None
            for row in rows]


def spread(launches: Sequence[Sequence[Sample]]) -> List[Row]:
    """Per size, the smallest and largest of the launches' times."""
    table = []
    for index, sample in enumerate(launches[0]):
        times = [launch[index].mean_us for launch in launches]
        table.append({"size": sample.size, "min_us": min(times), "max_us": max(times)})
    return table


def wire_check(launches: Sequence[Sequence[Sample]]) -> Dict[str, Any]:
    """Whether the library's bytes per rail agree with the interfaces' counters.

    {"agree": True | False | None (nothing to compare), "overhead": largest share more on the wire,
    "disagreements": sentences}.
    """
    worst: Optional[float] = None
    sentences: List[str] = []
    for sample in (sample for launch in launches for sample in launch):
        for rail in sample.rails:
            overhead = _overhead(rail) if sample.size >= _WIRE_MINIMUM else None
            if overhead is None:
                continue
            worst = overhead if worst is None else max(worst, overhead)
            if not 0 <= overhead <= _WIRE_OVERHEAD - 1:
                sentences.append(f"{sample.size} B on {rail.name}: the library counts "
                                 f"{rail.bytes} bytes, the interfaces {rail.wire_bytes}")
    return {"agree": None if worst is None else not sentences, "overhead": worst,
            "disagreements": sentences}


def _overhead(rail: RailSample) -> Optional[float]:
    if rail.wire_bytes is None or rail.bytes < _WIRE_MINIMUM:
        return None
    return rail.wire_bytes / rail.bytes - 1


def average_busbw(rows: Sequence[Row]) -> float:
    """Mean bus bandwidth over the rows, Gbit/s, as nccl-tests prints it."""
    return sum(row["busbw_gbps"] for row in rows) / len(rows) if rows else 0.0


def total_wrong(rows: Sequence[Row]) -> int:
    """Wrong elements in all rows."""
    return sum(row["wrong"] for row in rows)
