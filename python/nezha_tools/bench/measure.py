"""Runs one spec on one rank and combines what the ranks saw.

Per size: warm up, agree on the number of operations, barrier, operations back to back with a clock
reading after each, then the checked operations on fresh data. The time of a size is that of the loop
divided by its operations, as nccl-tests and the OSU benchmarks have it; an operation's own time, for
percentiles, is the maximum over ranks. The ranks combine their numbers with the communicator under test,
outside the timed part, so a bench needs nothing but a communicator.
"""

from __future__ import annotations

import gc
import math
import os
import time
from typing import Callable, Iterator, List, Optional, Set, Tuple

import numpy as np

from .collectives import CASES, Case
from .driver import Comm, RailCount
from .counters import cpu_seconds, line_rate, transmitted_bytes
from .reference import itemsize
from .spec import BenchSpec, RailSample, Sample

_WARMUP_MAX = 2000
_MIN_OPERATIONS = 5
_WARMUP_OPERATIONS = 5
_WARMUP_SECONDS = 1.0
_PILOT_SECONDS = 0.1  # a batch so long tells how many operations fit into the time


def measure(
    comm: Comm, spec: BenchSpec, progress: Optional[Callable[[Sample], None]] = None
) -> List[Sample]:
    """Measures every size of `spec`; the same list on every rank. Collective over `comm`."""
    samples = []
    for size in spec.sizes:
        samples.append(_measure_size(comm, spec, size))
        if progress is not None:
            progress(samples[-1])
    return samples


def _measure_size(comm: Comm, spec: BenchSpec, size: int) -> Sample:
    count = 0 if spec.collective == "barrier" else size // itemsize(spec.dtype)
    case = CASES[spec.collective](comm, spec, count)
    operations = _warm_up(comm, spec, case)
    rails_before, wire_before = _all_rails(comm), transmitted_bytes()
    cpu_before = cpu_seconds()
    times = _time(comm, case, operations)
    cpu = cpu_seconds() - cpu_before
    rails_after, wire_after = _all_rails(comm), transmitted_bytes()
    wrong = 0
    for _ in range(spec.checks):
        case.refill()
        comm.barrier()
        case.call()
        wrong += case.wrong()
    totals = _combine(comm, np.array([float(wrong), cpu]), "sum")
    return Sample(
        size=0 if spec.collective == "barrier" else size,
        count=count,
        ranks=comm.world_size,
        times_us=[float(value) * 1e6 for value in _combine(comm, times, "max")],
        mean_us=1e6 * float(_combine(comm, np.array([times.mean()]), "max")[0]),
        wrong=int(totals[0]),
        cpu_s=float(totals[1]),
        rails=_rails(comm, spec, (rails_before, rails_after), (wire_before, wire_after)),
        cores=int(_combine(comm, np.array([float(len(os.sched_getaffinity(0)))]), "min")[0]),
        hosts=len(_hosts(comm)),
    )


def _warm_up(comm: Comm, spec: BenchSpec, case: Case) -> int:
    """Warms up and returns how many operations to time; both equal on every rank.

    Growing batches: the last one is long enough for its mean to be worth something.
    """
    batch, total, spent = spec.warmup or 1, 0, 0.0
    while True:
        seconds = _slowest(comm, case, batch)
        total, spent = total + batch, spent + seconds
        if spec.warmup is not None or spent >= _WARMUP_SECONDS:
            break
        if seconds >= _PILOT_SECONDS and total >= _WARMUP_OPERATIONS:
            break
        if batch >= _WARMUP_MAX:
            break
        batch *= 4
    if spec.iterations is not None:
        return spec.iterations
    wanted = math.ceil(spec.seconds * batch / max(seconds, 1e-9))
    return max(_MIN_OPERATIONS, min(spec.most, wanted))


def _slowest(comm: Comm, case: Case, operations: int) -> float:
    """Seconds of `operations` calls on the slowest rank."""
    comm.barrier()
    begin = time.perf_counter()
    for _ in range(operations):
        case.call()
    return float(_combine(comm, np.array([time.perf_counter() - begin]), "max")[0])


def _time(comm: Comm, case: Case, operations: int) -> np.ndarray:
    """Seconds of each of `operations` calls made back to back on this rank."""
    stamps = [0] * (operations + 1)
    clock, call = time.perf_counter_ns, case.call
    collecting = gc.isenabled()
    gc.disable()
    try:
        comm.barrier()
        stamps[0] = clock()
        for index in range(1, operations + 1):
            call()
            stamps[index] = clock()
    finally:
        if collecting:
            gc.enable()
    return np.diff(np.array(stamps, dtype=np.int64)) / 1e9


def _combine(comm: Comm, values: np.ndarray, op: str) -> np.ndarray:
    """Element-wise `op` over ranks of float64 `values`."""
    combined = values.astype(np.float64)
    comm.all_reduce(combined, op=op)
    return combined


def _all_rails(comm: Comm) -> List[RailCount]:
    """The rails, the memory shared with ranks of this host as one more, where there is any, and the way
    to the aggregation node, where there is a node."""
    rails: List[RailCount] = []
    stats = comm.stats()
    shared = int(stats.get("memory_bytes_sent", 0))
    for rail in comm.rails():
        in_memory = rail.get("shm_bytes_sent", 0)
        shared += in_memory
        rails.append({"name": rail["name"], "device": rail["device"], "transport": rail["transport"],
                      "bytes_sent": rail["bytes_sent"] - in_memory})
    if shared > 0:
        rails.append({"name": "shm", "device": "", "transport": "shm", "bytes_sent": shared})
    node = stats.get("aggregation")
    if node is not None:
        rails.append({"name": f"{node['device']} agg", "device": node["device"], "transport": "agg",
                      "bytes_sent": node["bytes_sent"]})
    return rails


def _hosts(comm: Comm) -> Set[int]:
    """The numbers of the hosts that have ranks; empty where the library does not know."""
    return set(comm.stats().get("host_of", ()))


def _rails(
    comm: Comm, spec: BenchSpec, rails: Tuple[list, list], wire: Tuple[dict, dict]
) -> List[RailSample]:
    """This size's traffic per rail, summed over ranks. Rails are matched by name or position."""
    shared = 0 < len(_hosts(comm)) < comm.world_size
    own = list(_own_rails(spec, rails, wire, shared))
    length = int(_combine(comm, np.array([float(len(own))]), "max")[0])
    if length == 0:
        return []
    table = np.zeros((length, 3))
    for index, rail in enumerate(own):
        table[index] = (rail.bytes, rail.wire_bytes or 0, rail.wire_bytes is None)
    table = _combine(comm, table.ravel(), "sum").reshape(length, 3)
    for index, (sent, on_wire, unknown) in enumerate(table[: len(own)]):
        own[index].bytes = int(sent)
        own[index].wire_bytes = None if unknown else int(on_wire)
    return own


def _own_rails(
    spec: BenchSpec, rails: Tuple[list, list], wire: Tuple[dict, dict], shared: bool
) -> Iterator[RailSample]:
    """This rank's rails. Several rails on one device cannot be told apart on the wire, nor can ranks
    on one loopback, or on one host (shared)."""
    before = {rail["name"]: rail["bytes_sent"] for rail in rails[0]}
    devices = [rail["device"] for rail in rails[1]]
    for rail in sorted(rails[1], key=lambda entry: entry["name"]):
        device = rail["device"]
        countable = (not shared and devices.count(device) == 1 and device != "lo"
                     and device in wire[0] and device in wire[1])
        yield RailSample(
            name=rail["name"],
            device=device,
            bytes=int(rail["bytes_sent"]) - int(before.get(rail["name"], 0)),
            wire_bytes=wire[1][device] - wire[0][device] if countable else None,
            rate=spec.rates.get(device) or line_rate(device),
            transport=rail["transport"],
        )
