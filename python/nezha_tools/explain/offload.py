"""`nezha plan offload`: an all_gather inside a host, part of it over the host's adapters. Pure.

Each of L processes gets L - 1 messages of M bytes, which it copies at B_c or lets the H adapters of B_h
carry. Both are done at one time when d of them go over the adapters, which carry those of all processes:
  (L - 1 - d) M / B_c = d L M / (H B_h),  so  d = (L - 1) / (1 + L B_c / (H B_h))
Source of the idea: multi-HCA aware (MHA) all_gather, ICPP workshops 2022; only slides were to be had.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Dict

from ..cli.errors import PlanError
from ..cli.validation import whole

# Bytes per second that a rank copies out of shared memory, as the library counts (docs/hierarchy.md).
COPY_RATE = 3e9
_SIZES = [1 << shift for shift in range(10, 27, 2)]


@dataclass(frozen=True)
class Adapters:
    """rate: bytes per second of one; latency_s: until the first byte of a message has arrived. why_none:
    where none carries what processes of a host send each other, the reason, and else ""."""

    count: int
    rate: float = 0.0
    latency_s: float = 0.0
    why_none: str = ""


def adapters_here(fabric: Dict[str, Any], latency_s: float) -> Adapters:
    """Those of this host. fabric: what the library says of libfabric's devices. Only RDMA adapters read
    and write the memory of two processes themselves. Raises PlanError where a rate is not known."""
    found = [device for device in fabric["devices"] if device["adapter"]]
    if not found:
        return Adapters(0, why_none=(
            "this host has no RDMA adapter. What its processes send each other over TCP never reaches a "
            "network card: the kernel hands it over on the loopback, and the processors that would copy "
            "it anyway do so once more"))
    unknown = [device["rail"] for device in found if not device["speed_gbps"]]
    if unknown:
        raise PlanError(f"the rate of {', '.join(unknown)} is not known: give --adapters and --adapter "
                        "RATE")
    return Adapters(len(found), min(device["speed_gbps"] for device in found) * 1e9 / 8, latency_s)


def share_inside(processes: int, fabric: Dict[str, Any]) -> Dict[str, Any]:
    """{"ranks", "over_adapters", "text"}: d of the adapters of this host, where a process copies as fast
    as the library takes it for; `text`: with what it rests on."""
    measured = f"nezha plan offload --processes {processes}"
    try:
        adapters = adapters_here(fabric, 0.0)
    except PlanError:
        return {"ranks": processes, "over_adapters": None, "text":
                f"How much of it idle adapters could carry: {measured} --adapters N --adapter RATE."}
    best = over_adapters(processes, adapters, COPY_RATE)
    if adapters.why_none:
        text = f"None of it goes over adapters (d = 0): {adapters.why_none}."
    else:
        text = (f"Idle adapters of this host could carry d = {best:.2g} of the {processes - 1} blocks "
                f"that a rank gets inside its host, if it copies {COPY_RATE / 1e9:g} GB/s ({measured} "
                "measures that); this library has no such all_gather.")
    return {"ranks": processes, "over_adapters": best, "text": text}


def offload(processes: int, adapters: Adapters, copy_rate: float, size: int) -> Dict[str, Any]:
    """copy_rate: bytes per second that each process copies while all do. size: bytes that every process
    has. Raises PlanError."""
    whole("processes", processes, 2, 4096)
    whole("size", size, 1, 1 << 60)
    if not adapters.why_none:
        whole("adapters", adapters.count, 1, 1024)
    best = over_adapters(processes, adapters, copy_rate)
    rows = [_row(processes, adapters, copy_rate, each) for each in _SIZES]
    asked = _row(processes, adapters, copy_rate, size)
    return {"processes": processes, "messages": processes - 1, "over_adapters": best, "size": size,
            "adapters": adapters.count, "adapter_gb_per_s": adapters.rate / 1e9,
            "copy_gb_per_s": copy_rate / 1e9, "why_none": adapters.why_none,
            "seconds": _seconds(processes, adapters, copy_rate, size, best), **asked,
            "pays_from": _pays_from(processes, adapters, copy_rate), "sizes": rows,
            "assumptions": ["adapters and processors do not disturb each other; an adapter's messages "
                            f"begin together, {adapters.latency_s * 1e6:g} us after the call",
                            "this library has no such all_gather; the answer is for one that has"]}


def over_adapters(processes: int, adapters: Adapters, copy_rate: float) -> float:
    """d: of the messages that a process gets, how many the adapters carry so that all end together."""
    if adapters.count == 0:
        return 0.0
    return (processes - 1) / (1 + processes * copy_rate / (adapters.count * adapters.rate))


def _seconds(processes: int, adapters: Adapters, copy_rate: float, size: int, carried: float) -> float:
    copied = (processes - 1 - carried) * size / copy_rate
    if carried == 0:
        return copied
    return max(copied, adapters.latency_s + carried * processes * size / (adapters.count * adapters.rate))


def _row(processes: int, adapters: Adapters, copy_rate: float, size: int) -> Dict[str, Any]:
    """What is best in whole messages at one size."""
    best = over_adapters(processes, adapters, copy_rate)
    choices = range(min(int(best) + 2, processes) if adapters.count else 1)
    carried = min(choices, key=lambda count: _seconds(processes, adapters, copy_rate, size, count))
    copied = _seconds(processes, adapters, copy_rate, size, 0)
    taken = _seconds(processes, adapters, copy_rate, size, carried)
    return {"size": size, "copied_seconds": copied, "whole_messages": carried, "whole_seconds": taken,
            "gain": copied / taken}


def _pays_from(processes: int, adapters: Adapters, copy_rate: float) -> Any:
    """Bytes from which one message over the adapters ends before all are copied; None: at no size."""
    if adapters.count == 0:
        return None
    saved = (processes - 1) / copy_rate - processes / (adapters.count * adapters.rate)  # seconds a byte
    return adapters.latency_s / saved if saved > 0 else None
