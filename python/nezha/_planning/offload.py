"""`nezha plan offload`: an all_gather inside a node, part of it over the node's adapters. Pure.

Each of L processes gets L - 1 messages, which it copies at B_c or lets the H adapters of B_h carry.
Both are done at one time when d of them go over the adapters, which carry those of all L processes:
  (L - 1 - d) M / B_c = d L M / (H B_h),  so  d = (L - 1) / (1 + L B_c / (H B_h))
Source of the idea: multi-HCA aware (MHA) all_gather, ICPP workshops 2022; only slides were to be had.
"""

from __future__ import annotations

from typing import Any, Dict

from .validation import whole


def offload(processes: int, adapters: int, copy_rate: float, adapter_rate: float,
            size: int) -> Dict[str, Any]:
    """Rates in bytes per second: of a process that copies while all do, of an adapter. size: bytes that
    every process has. Raises PlanError."""
    whole("processes", processes, 2, 4096)
    whole("adapters", adapters, 1, 1024)
    copies = processes - 1
    best = copies / (1 + processes * copy_rate / (adapters * adapter_rate))

    def seconds(carried: float) -> float:
        return max((copies - carried) * size / copy_rate,
                   carried * processes * size / (adapters * adapter_rate))

    whole_messages = min((int(best), int(best) + 1), key=seconds)
    return {"messages": copies, "over_adapters": best, "whole_messages": whole_messages,
            "seconds": seconds(best), "whole_seconds": seconds(whole_messages),
            "copied_seconds": seconds(0),
            "assumptions": ["adapters and processors do not disturb each other; messages start at once",
                            "this library has no such all_gather; the answer is for one that has"]}
