"""What a call from Python costs, in microseconds at 8 bytes.

    python bench/python_overhead.py [--calls N]

A world of one rank moves nothing, so the time is the way through Python, the binding, and the
library's own bookkeeping of an operation: an upper bound of what Python adds.
"""

from __future__ import annotations

import argparse
import array
import statistics
import time
from typing import Any, Callable, Dict, List

import numpy

import nezha


def microseconds(call: Callable[[], Any], calls: int, rounds: int = 7) -> float:
    """Median over rounds of the mean time of one call, in microseconds."""
    times: List[float] = []
    for _ in range(rounds):
        start = time.perf_counter()
        for _ in range(calls):
            call()
        times.append((time.perf_counter() - start) / calls * 1e6)
    return statistics.median(times)


def arrays() -> Dict[str, Any]:
    """Eight bytes of every kind of array that is installed."""
    found: Dict[str, Any] = {"numpy float64": numpy.ones(1), "array.array": array.array("d", [1.0])}
    try:
        import ml_dtypes

        found["numpy bfloat16"] = numpy.ones(4, ml_dtypes.bfloat16)
    except ImportError:
        pass
    try:
        import torch

        found["torch float32"] = torch.ones(2)
    except ImportError:
        pass
    return found


def main() -> None:
    """Prints one line per kind of array."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--calls", type=int, default=20000)
    calls = parser.parse_args().calls
    with nezha.init() as comm:
        print(f"{'barrier':16} {microseconds(comm.barrier, calls):7.2f} us")
        for name, x in arrays().items():
            print(f"{name:16} {microseconds(lambda: comm.all_reduce(x), calls):7.2f} us")


if __name__ == "__main__":
    main()
