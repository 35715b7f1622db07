"""One rank of a matrix-vector bench: `python -m nezha_tools.bench.matvec_worker SPEC.json`.

Rank 0 prints one line, `@matvec {json}`; everything else on its output is somebody's log. Elements are
small integers that depend on their place, and parts of the vector alternate between two variants, so
every sum is exact and what is left over from an iteration before is seen.
"""

from __future__ import annotations

import math
import os
import sys
import time
from pathlib import Path
from typing import Any, List, Tuple

import numpy as np

from .counters import transmitted_bytes
from .matvec_spec import Launch, MatvecSpec

_VARIANTS = 2
_WARM_UP = 5
_MOST = 1000
_FEWEST = 5


def matrix(spec: MatvecSpec, rank: int, ranks: int) -> Any:
    """This rank's rows, [rows / ranks, columns] of 0 to 4."""
    rows = spec.rows // ranks
    row, column = np.arange(rank * rows, (rank + 1) * rows)[:, None], np.arange(spec.columns)[None, :]
    return ((row * 7 + column * 3 + (column >> 6)) % 5).astype(np.float64)


def vector(spec: MatvecSpec, variant: int) -> Any:
    """The whole vector, [columns] of 0 to 6."""
    place = np.arange(spec.columns)
    return ((place * 5 + (place >> 8) * 3 + variant * 2) % 7).astype(np.float64)


class Kernel:
    """The buffers of one rank, and one iteration with them."""

    def __init__(self, comm: Any, spec: MatvecSpec) -> None:
        self._comm = comm
        self._matrix = matrix(spec, comm.rank, comm.world_size)
        self._whole = [vector(spec, variant) for variant in range(_VARIANTS)]
        columns = spec.columns // comm.world_size
        mine = slice(comm.rank * columns, (comm.rank + 1) * columns)
        self._parts = [whole[mine].copy() for whole in self._whole]
        self._x, self._y = np.empty(spec.columns), np.empty(len(self._matrix))
        self.seconds: List[Tuple[float, float]] = []  # of each iteration: in all, and in the all_gather

    def iterate(self, count: int) -> float:
        """`count` iterations, timed anew, on all ranks at once; seconds. Collective."""
        self.seconds, clock = [], time.perf_counter
        self._comm.barrier()
        begin = before = clock()
        for number in range(count):
            called = clock()
            self._comm.all_gather(self._parts[number % _VARIANTS], out=self._x)
            gathered = clock() - called
            np.dot(self._matrix, self._x, out=self._y)
            end = clock()
            self.seconds.append((end - before, gathered))
            before = end
        return before - begin

    def wrong(self) -> int:
        """Wrong elements after one iteration of each variant. Collective."""
        found = 0
        for part, whole in zip(self._parts, self._whole):
            self._x.fill(np.nan)
            self._comm.all_gather(part, out=self._x)
            np.dot(self._matrix, self._x, out=self._y)
            expected = self._matrix.astype(np.int64) @ whole.astype(np.int64)
            found += int(np.count_nonzero(self._x != whole) + np.count_nonzero(self._y != expected))
        return found


def measure(comm: Any, spec: MatvecSpec) -> Launch:
    """Measures on all ranks; the same on each except for `algorithms`. Collective."""
    kernel = Kernel(comm, spec)
    slowest = comm.all_reduce(np.array([kernel.iterate(_WARM_UP)]), op="max")[0] / _WARM_UP
    count = spec.iterations or max(_FEWEST, min(_MOST, math.ceil(spec.seconds / slowest)))
    before = _sent(spec)
    kernel.iterate(count)
    sent = _sent(spec) - before
    iteration, gather = (np.array(values) * 1e6 for values in zip(*kernel.seconds))
    iteration = comm.all_reduce(iteration, op="max")
    gather = comm.all_reduce(gather) / comm.world_size
    total = comm.all_reduce(np.array([sent / count, float(kernel.wrong())]))
    algorithms = {each["algorithm"] for each in comm.flight()["operations"]
                  if each["collective"] == "all_gather"}
    return Launch(iteration.tolist(), gather.tolist(), sorted(algorithms),
                  len(set(comm.stats()["host_of"])), float(total[0]), int(total[1]))


def _sent(spec: MatvecSpec) -> float:
    """Bytes that this host has sent to others, counted by its first rank only."""
    if os.environ.get("LOCAL_RANK", "0") != "0":
        return 0.0
    counters = transmitted_bytes()
    return float(sum(counters.get(device, 0) for device in spec.devices))


def main() -> None:
    """Joins the world that the environment describes and runs the spec."""
    import nezha

    spec = MatvecSpec.load(Path(sys.argv[1]))
    try:
        with nezha.init(config=spec.config) as comm:
            found = measure(comm, spec)
            if comm.rank == 0:
                found.emit()
    except (nezha.Error, ValueError) as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
