#!/usr/bin/env python3
"""Microseconds per call that the torch backend adds to the core, for 8-byte all_reduces.

    python bench/torch_overhead.py [--calls 3000] [--rounds 9]

One rank, so that no network and no other process is in the figure: the core's part is measured with
nezha.Communicator on a NumPy array, the backend's with the Backend object that torch calls, and the whole
with torch.distributed.all_reduce, beside torch's own Gloo. Prints the median of the rounds.
"""

from __future__ import annotations

import argparse
import statistics
import time
from typing import Any, Callable, Dict

import numpy
import torch
import torch.distributed as dist

from nezha.torch import communicator, register


def main() -> None:
    """Measures and prints."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--calls", type=int, default=3000)
    parser.add_argument("--rounds", type=int, default=9)
    arguments = parser.parse_args()
    register.register_backend()
    dist.init_process_group("nezha", store=dist.HashStore(), rank=0, world_size=1)
    medians = measure(subjects(), arguments.calls, arguments.rounds)
    for name, microseconds in medians.items():
        print(f"{name:42} {microseconds:8.2f} us")
    core = medians["core, NumPy"]
    print(f"{'backend over the core, waiting':42} {medians['backend, waiting'] - core:8.2f} us")
    dist.destroy_process_group()


def subjects() -> Dict[str, Callable[[], Any]]:
    """What is measured, by name."""
    array, tensor = numpy.zeros(1), torch.zeros(1, dtype=torch.float64)
    comm = communicator()
    backend = dist.group.WORLD._get_backend(torch.device("cpu"))
    gloo = dist.new_group(backend="gloo")
    waiting, running = dist.AllreduceOptions(), dist.AllreduceOptions()
    waiting.asyncOp = False
    return {
        "core, NumPy": lambda: comm.all_reduce(array),
        "core, NumPy, asynchronous": lambda: comm.all_reduce(array, async_op=True).wait(),
        "backend, waiting": lambda: backend.allreduce([tensor], waiting),
        "backend, asynchronous": lambda: backend.allreduce([tensor], running).wait(),
        "torch.distributed": lambda: dist.all_reduce(tensor),
        "torch.distributed, asynchronous": lambda: dist.all_reduce(tensor, async_op=True).wait(),
        "torch.distributed on Gloo": lambda: dist.all_reduce(tensor, group=gloo),
    }


def measure(calls: Dict[str, Callable[[], Any]], count: int, rounds: int) -> Dict[str, float]:
    """Medians over rounds, in which all take turns so that a busy machine hits all alike."""
    times: Dict[str, list] = {name: [] for name in calls}
    for _ in range(rounds):
        for name, call in calls.items():
            begin = time.perf_counter()
            for _ in range(count):
                call()
            times[name].append((time.perf_counter() - begin) / count * 1e6)
    return {name: statistics.median(values) for name, values in times.items()}


if __name__ == "__main__":
    main()
