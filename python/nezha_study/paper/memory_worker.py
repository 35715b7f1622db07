"""One rank of Table III: `python -m nezha_study.paper.memory_worker SPEC.json`.

All ranks run all_reduces back to back and count what their processors do meanwhile. Rank 0 prints
`@memory {json}` at the end; everything else on its output is somebody's log.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Dict, List

import numpy as np

from nezha_tools.bench.collectives import AllReduce
from nezha_tools.bench.spec import BenchSpec
from nezha_tools.bench.worker_records import Result, Spec
from .processor_counters import Event, opened
from .world import joined


@dataclass
class MemorySpec(Spec):
    """size: bytes. warmup, operations: how many. events: fields of Event, of which every rank counts
    those that it can."""

    size: int
    warmup: int
    operations: int
    config: Dict[str, str]
    events: List[List[Any]]


@dataclass
class Memory(Result):
    """counts: of all ranks during the operations, by the event's name. wrong: elements after that."""

    PREFIX: ClassVar[str] = "@memory "

    counts: Dict[str, float]
    wrong: int

    label = "counters"


def main() -> None:
    """Joins the world that the environment describes, runs the spec, and checks one operation more."""
    spec = MemorySpec.load(Path(sys.argv[1]))
    counters = opened([Event(*each) for each in spec.events])  # before the library starts threads
    with joined(spec.config) as comm:
        case = AllReduce(comm, BenchSpec([spec.size]), spec.size // 4)
        for _ in range(spec.warmup):
            case.call()
        comm.barrier()
        before = [counter.read() for counter in counters.values()]
        for _ in range(spec.operations):
            case.call()
        after = [counter.read() for counter in counters.values()]
        case.refill()
        comm.barrier()
        case.call()
        totals = np.array([float(case.wrong()), *np.subtract(after, before)])
        comm.all_reduce(totals)
        if comm.rank == 0:
            Memory(dict(zip(counters, map(float, totals[1:]))), int(totals[0])).emit()


if __name__ == "__main__":
    main()
