"""R23: R1, R2, R7 and R8 where hosts have several ranks: collectives in memory, and by host.

Every fault is confirmed twice: by its own counter, and by the flight recorders of all ranks, which say
that the operations that it met ran in memory or by host.
"""

from __future__ import annotations

import random
from typing import Any, Dict, List, Sequence, Tuple

from campaigns.campaign import Record
from campaigns.cases import Case, chosen
from campaigns.job import Job
from campaigns.lines import Broken
from campaigns.measure import Figure
from campaigns.r01_kill import Kill
from campaigns.r02_black_hole import BlackHole
from campaigns.r07_sigkill import SigKill
from campaigns.r08_sigstop import SigStop

_RANKS = 4
_WITHIN_S = 0.001  # after it called an operation a rank dies: in that one, or in one of the next
_MEMORY: Dict[str, Any] = {"shm": "on"}


def only(job: Job, algorithm: str, failed: bool = False) -> None:
    """Raises Broken unless all of the latest operations, or all that failed, ran by that algorithm."""
    found = job.algorithms(failed)
    if found != {algorithm}:
        raise Broken(f"the fault did not meet what it was for: operations ran by {sorted(found)} and "
                     f"not by {algorithm} alone")


class KillInMemory(SigKill):
    """A rank of a host dies while all ranks of the job work in one memory. Every kill has a job of its
    own, as many ranks as the others."""

    id = "R23-KILL"
    title = "ranks killed in memory"
    wanted = (2, 40, 400)
    budget_s = 150.0
    nodes, ranks_per_node = 1, _RANKS
    least = _RANKS
    idle = 0.0
    cases: Sequence[Case] = chosen(1 << 16)
    settings = _MEMORY

    def strike(self, job: Job, victim: int, cases: List[int],
               rng: random.Random) -> Tuple[float, float]:
        """Operations in memory are too short for a kill from outside to meet one of them."""
        begin = job.start_ops(cases, dies={"rank": victim, "operation": rng.randrange(len(cases) // 2),
                                           "after": rng.uniform(1e-6, _WITHIN_S)})
        return begin, job.died(victim)

    def confirm(self, job: Job) -> None:
        only(job, "memory", failed=True)

    def figures(self, record: Record) -> List[Figure]:
        return [Figure("in mid-operation in memory", float(len(record.samples)), None, ""),
                *super().figures(record)]


class StopInMemory(SigStop):
    """A rank of a host is stopped for 0.1 to 5 s while the others wait for it in one memory."""

    id = "R23-STOP"
    title = "ranks stopped in memory"
    wanted = (2, 30, 300)
    budget_s = 100.0
    most_s = 5.0
    batch = 120
    nodes, ranks_per_node = 1, _RANKS
    cases: Sequence[Case] = chosen(1 << 20)
    settings = _MEMORY

    def confirm(self, job: Job) -> None:
        only(job, "memory")

    def figures(self, record: Record) -> List[Figure]:
        during = sum(1 for sample in record.samples if sample["during"])
        return [Figure("in mid-operation in memory", float(during), 0.9 * len(record.samples), "",
                       at_least=True), *super().figures(record)]


class ByHost:
    """Of a campaign of rails: two hosts of two ranks, and operations that go by host."""

    nodes, ranks_per_node = 2, 2
    algorithm = "hierarchical"
    cases: Sequence[Case] = [*chosen(1 << 18, algorithm),
                             Case("all_to_all", 1 << 8, "int32", algorithm),
                             Case("all_to_all", 1 << 16, "float32", algorithm)]

    def confirm(self, job: Job) -> None:
        """Raises Broken where other operations met the fault."""
        only(job, self.algorithm)


class KillByHost(ByHost, Kill):
    """Connections between hosts are destroyed under operations that go by host."""

    id = "R23-RESET"
    title = "connections killed, by host"
    wanted = (6, 300, 3000)
    budget_s = 120.0


class KillByLeaders(KillByHost):
    """The same under operations that leaders carry out for their hosts."""

    id = "R23-LEADERS"
    title = "connections killed, by leaders"
    wanted = (2, 100, 1000)
    budget_s = 60.0
    algorithm = "leaders"
    cases = [*chosen(1 << 16, algorithm), Case("all_to_all", 16, "int32", algorithm),
             Case("all_to_all", 1 << 12, "float32", algorithm)]


class BlackHoleByHost(ByHost, BlackHole):
    """A host's rail swallows packets under operations that go by host."""

    id = "R23-HOLE"
    title = "rails swallowed, by host"
    wanted = (3, 40, 400)
    budget_s = 100.0
