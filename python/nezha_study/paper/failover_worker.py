"""One rank of the fail-over test: `python -m nezha_study.paper.failover_worker SPEC.json`.

All ranks run all_reduces back to back and check every result. Rank 0 prints `@phase {json}` where whoever
started it has something to do: when operations run steadily (strike now), and some time later, with the
times of all results since (restore now). Two elements of each operation belong to this program: how many
elements were wrong before, and what comes next, of which rank 0 decides.
"""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Dict, List, Tuple

import numpy as np

from nezha_tools.bench.worker_records import Result, Spec
from .world import joined

COUNTERS = ("endpoints_lost", "links_suspected", "retransmitted")
STEADY, STRUCK = "steady", "struck"
_GO_ON, _COUNT, _END = 0.0, 1.0, 2.0
_VALUES = 251  # a prime: a shifted result is wrong
_SCALES = 7  # an old result is wrong
_POLL_S = 0.1  # between looks at the connections


@dataclass
class FailoverSpec(Spec):
    """size: bytes. faults: how many. steady_s, struck_s: of operations before and after each. heal_s: at
    most until all connections are there again."""

    size: int
    faults: int
    steady_s: float
    struck_s: float
    heal_s: float


@dataclass
class Phase(Result):
    """ends_s: when rank 0 had results, on this machine's monotonic clock, since the steady phase began.
    counters: of all ranks together, since then. healed: whether the fault before is over."""

    PREFIX: ClassVar[str] = "@phase "

    phase: str
    ends_s: List[float]
    counters: Dict[str, int]
    wrong: int
    healed: bool

    @property
    def label(self) -> str:
        """What a progress bar shows of it."""
        return f"fail-over, {self.phase}"


class Operations:
    """All_reduces whose results are known."""

    def __init__(self, comm: Any, size: int) -> None:
        self._comm = comm
        count = max(3, size // 4)
        self._pattern = (np.arange(count) % _VALUES).astype(np.float32)
        self._sum = comm.world_size * (comm.world_size + 1) // 2
        self._data = np.empty_like(self._pattern)
        self._wrong = 0
        self._number = 0

    def one(self, word: float) -> Tuple[float, int]:
        """One operation: what rank 0's word was, and how many elements of all ranks were wrong before."""
        scale = self._number % _SCALES + 1
        self._number += 1
        np.multiply(self._pattern, (self._comm.rank + 1) * scale, out=self._data)
        self._data[-2:] = (self._wrong, word if self._comm.rank == 0 else 0.0)
        self._comm.all_reduce(self._data)
        wanted = self._pattern[:-2] * np.float32(self._sum * scale)
        self._wrong = int(np.count_nonzero(self._data[:-2] != wanted))
        return float(self._data[-1]), int(self._data[-2])


def counted(comm: Any) -> np.ndarray:
    """COUNTERS of all ranks together. Collective."""
    stats = comm.stats()
    values = np.array([float(stats[name]) for name in COUNTERS])
    comm.all_reduce(values)
    return values


class Leader:
    """Rank 0: decides what comes next, and says what there is to do."""

    def __init__(self, comm: Any, spec: FailoverSpec, operations: Operations) -> None:
        self._comm = comm
        self._spec = spec
        self._operations = operations
        self._wrong = 0

    def run(self) -> None:
        """All faults, one after the other."""
        self._for(self._spec.steady_s)
        healed = True
        for _ in range(self._spec.faults):
            before = self._count()
            ends = self._for(self._spec.steady_s)
            self._say(STEADY, [], np.zeros(len(COUNTERS)), healed)
            ends += self._for(self._spec.struck_s)
            self._say(STRUCK, ends, self._count() - before, healed)
            healed = self._heal()
        self._one(_END)

    def _one(self, word: float = _GO_ON) -> float:
        self._wrong += self._operations.one(word)[1]
        return time.monotonic()

    def _for(self, seconds: float) -> List[float]:
        """Operations for so long; when each had its result."""
        ends = [self._one()]
        while ends[-1] < ends[0] + seconds:
            ends.append(self._one())
        return ends

    def _count(self) -> np.ndarray:
        self._one(_COUNT)
        return counted(self._comm)

    def _say(self, phase: str, ends: List[float], counters: np.ndarray, healed: bool) -> None:
        Phase(phase, ends, {name: int(value) for name, value in zip(COUNTERS, counters)}, self._wrong,
              healed).emit()

    def _heal(self) -> bool:
        """Operations until every connection of this rank is well; whether that was in time."""
        limit = time.monotonic() + self._spec.heal_s
        while time.monotonic() < limit:
            self._for(_POLL_S)
            if all(peer["up"] and not peer["suspect"] for rail in self._comm.rails()
                   for peer in rail["peers"]):
                return True
        return False


def main() -> None:
    """Joins the world that the environment describes and runs the spec."""
    spec = FailoverSpec.load(Path(sys.argv[1]))
    with joined() as comm:
        operations = Operations(comm, spec.size)
        if comm.rank == 0:
            Leader(comm, spec, operations).run()
            return
        word = _GO_ON
        while word != _END:
            word = operations.one(_GO_ON)[0]
            if word == _COUNT:
                counted(comm)


if __name__ == "__main__":
    main()
