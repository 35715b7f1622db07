#!/usr/bin/env python3
"""Microseconds per call that the torch backend adds to the core, for small all_reduces.

    python bench/torch_overhead.py [--calls 3000] [--rounds 9] [--bytes 8]
    nezha run --lab default python bench/torch_overhead.py --calls 50 --rounds 20 --bytes 4096

Alone it is one rank, so that no network and no other process is in the figure; under a launcher it takes
the launcher's ranks. The core's part is measured with nezha.Communicator on a NumPy array, the backend's
with the Backend object that torch calls, and the whole with torch.distributed.all_reduce. Two references:
a backend that only calls the core on that NumPy array, so that what it costs is torch's own; and, for one
rank, torch's Gloo. Prints the median and the least of the rounds, in which all take turns so that a busy
machine hits all alike. Handovers: how often a call waited for another thread of its rank.
"""

from __future__ import annotations

import argparse
import os
import statistics
import time
from typing import Any, Callable, Dict, List, Tuple

import numpy
import torch
import torch.distributed as dist
from torch._C import _distributed_c10d as c10d

from nezha.torch import communicator, register

Calls = Dict[str, Callable[[], Any]]
CORE, WHOLE = "core, NumPy", "torch.distributed"


class Bare(c10d.Backend):
    """A backend that does nothing but the core's call."""

    def __init__(self, rank: int, world: int, call: Callable[[], Any]) -> None:
        c10d.Backend.__init__(self, rank, world)
        self._call = call

    def getBackendName(self) -> str:  # noqa: N802 (torch's name)
        """What it is registered as."""
        return "bare"

    def allreduce(self, tensors: Any, opts: Any) -> None:
        """torch takes None for an operation that is over."""
        del tensors, opts
        self._call()


def main() -> None:
    """Measures and prints."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--calls", type=int, default=3000)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--bytes", type=int, default=8)
    arguments = parser.parse_args()
    register.register_backend()
    alone = {} if "RANK" in os.environ else {"store": dist.HashStore(), "rank": 0, "world_size": 1}
    dist.init_process_group("nezha", **alone)
    times, handovers = measure(subjects(arguments.bytes // 8), arguments.calls, arguments.rounds)
    if dist.get_rank() == 0:
        medians = {name: statistics.median(values) for name, values in times.items()}
        print(f"{'us per call':42} {'median':>10} {'least':>10} {'over core':>10} {'handovers':>10}")
        for name, values in times.items():
            print(f"{name:42} {medians[name]:10.2f} {min(values):10.2f} "
                  f"{medians[name] - medians[CORE]:10.2f} {handovers[name]:10.2f}")
    dist.destroy_process_group()


def subjects(count: int) -> Calls:
    """What is measured, by name, on `count` float64."""
    array, tensor = numpy.zeros(count), torch.zeros(count, dtype=torch.float64)
    comm = communicator()
    backend = dist.group.WORLD._get_backend(torch.device("cpu"))
    dist.Backend.register_backend("bare", lambda opts, given: Bare(
        opts.group_rank, opts.group_size, lambda: comm.all_reduce(array)), extended_api=True,
        devices=["cpu"])
    bare = dist.new_group(backend="bare")
    waiting = dist.AllreduceOptions()
    waiting.asyncOp = False
    calls = {
        CORE: lambda: comm.all_reduce(array),
        "core, NumPy, asynchronous": lambda: comm.all_reduce(array, async_op=True).wait(),
        "backend": lambda: backend.allreduce([tensor], waiting),
        "torch.distributed, bare backend": lambda: dist.all_reduce(tensor, group=bare),
        WHOLE: lambda: dist.all_reduce(tensor),
        "torch.distributed, asynchronous": lambda: dist.all_reduce(tensor, async_op=True).wait(),
        "torch.distributed, coalesced": lambda: dist.all_reduce_coalesced([tensor]),
    }
    if comm.world_size == 1:
        gloo = dist.new_group(backend="gloo")
        calls["torch.distributed on Gloo"] = lambda: dist.all_reduce(tensor, group=gloo)
    return calls


def measure(calls: Calls, count: int, rounds: int) -> Tuple[Dict[str, List[float]], Dict[str, float]]:
    """(microseconds of each round, handovers per call), by name."""
    comm = communicator()
    times: Dict[str, List[float]] = {name: [] for name in calls}
    handovers = dict.fromkeys(calls, 0.0)
    for _ in range(rounds):
        for name, call in calls.items():
            call()
            comm.barrier()
            before = comm.stats()["handovers"]
            begin = time.perf_counter()
            for _ in range(count):
                call()
            times[name].append((time.perf_counter() - begin) / count * 1e6)
            handovers[name] += (comm.stats()["handovers"] - before) / count / rounds
    return times, handovers


if __name__ == "__main__":
    main()
