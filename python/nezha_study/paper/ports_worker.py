"""One rank of Fig. 6: `python -m nezha_study.paper.ports_worker SPEC.json`.

All ranks run all_reduces back to back. Rank 0 reads the counters of its node's ports meanwhile and prints
`@ports {json}` at the end; everything else on its output is somebody's log.
"""

from __future__ import annotations

import sys
import threading
import time
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Iterator, List

import numpy as np

from nezha_tools.bench.collectives import AllReduce
from nezha_tools.bench.counters import transmitted_bytes
from nezha_tools.bench.spec import BenchSpec
from nezha_tools.bench.worker_records import Result, Spec
from .world import joined


@dataclass
class PortsSpec(Spec):
    """size: bytes. warmup, operations: how many. window_s: between two readings of the counters."""

    size: int
    warmup: int
    operations: int
    window_s: float
    devices: List[str]


@dataclass
class Ports(Result):
    """Readings from the first operation to the last. sent[i]: bytes that device i has sent by times_s[j].
    wrong: elements of all ranks in an operation after that."""

    PREFIX: ClassVar[str] = "@ports "

    times_s: List[float]
    sent: List[List[int]]
    wrong: int

    label = "rates"


@contextmanager
def watching(devices: List[str], window_s: float, times: List[float],
             sent: List[List[int]]) -> Iterator[None]:
    """Reads counters into `times` and `sent` at the beginning, every window_s, and at the end."""
    over = threading.Event()

    def read() -> None:
        counters = transmitted_bytes()
        times.append(time.monotonic())
        for index, device in enumerate(devices):
            sent[index].append(counters[device])

    def watch() -> None:
        due = times[0]
        while True:
            due += window_s
            if over.wait(max(0.0, due - time.monotonic())):
                return
            read()

    read()
    thread = threading.Thread(target=watch, name="ports")
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
        read()


def main() -> None:
    """Joins the world that the environment describes, runs the spec, and checks one operation more."""
    spec = PortsSpec.load(Path(sys.argv[1]))
    with joined() as comm:
        case = AllReduce(comm, BenchSpec([spec.size]), spec.size // 4)
        for _ in range(spec.warmup):
            case.call()
        comm.barrier()
        found = Ports([], [[] for _ in spec.devices], 0)
        watched = spec.devices if comm.rank == 0 else []
        with watching(watched, spec.window_s, found.times_s, found.sent):
            for _ in range(spec.operations):
                case.call()
        case.refill()
        comm.barrier()
        case.call()
        wrong = np.array([float(case.wrong())])
        comm.all_reduce(wrong)
        found.wrong = int(wrong[0])
        if comm.rank == 0:
            found.emit()


if __name__ == "__main__":
    main()
