"""R8: ranks are stopped for a while; nobody fails, and no rail is blamed for it."""

from __future__ import annotations

import random
import signal
import time
from typing import Any, Dict, List, Sequence

from nezha.lab import Lab

from campaigns.campaign import Campaign, Record
from campaigns.cases import Case, mixed
from campaigns.job import Job, job_in
from campaigns.lines import Broken
from campaigns.measure import Figure, spread
from campaigns.rails import links

_SHORT_PAUSES = (0.1, 0.4, 1.2)
_LEAST_S = 0.1


class SigStop(Campaign):
    """Pauses of 0.1 to 30 s, as many short as long ones on a logarithmic scale."""

    id = "R8"
    title = "ranks stopped"
    wanted = (len(_SHORT_PAUSES), 50, 500)
    budget_s = 350.0
    most_s = 30.0
    batch = 12  # operations; the pause begins in the first half of them
    nodes, ranks_per_node = 3, 1
    cases: Sequence[Case] = mixed(1 << 18)
    settings: Dict[str, Any] = {}  # configuration of the job

    def confirm(self, job: Job) -> None:
        """Raises Broken where the pause met other operations than those of this campaign."""

    def run(self, record: Record) -> None:
        with Lab(self.nodes, ["1gbit", "1gbit"], ranks_per_node=self.ranks_per_node) as lab, \
                job_in(lab, self.cases, record, timeout_s=120, **self.settings) as job:
            for number, rng in record.faults():
                pause = _LEAST_S * (self.most_s / _LEAST_S) ** rng.random()
                if record.form == "short":
                    pause = _SHORT_PAUSES[number]
                self._one(record, job, rng, pause)

    def _one(self, record: Record, job: Job, rng: random.Random, pause: float) -> None:
        cases = [rng.randrange(len(job.cases)) for _ in range(self.batch)]
        before = job.state()
        victim = rng.randrange(len(job.ranks))
        begin = job.start_ops(cases)
        usual = sum(job.baseline.median(case) for case in cases)
        time.sleep(max(0.0, begin - time.monotonic()) + rng.uniform(0, 0.5) * usual)
        job.signal(victim, signal.SIGSTOP)
        try:
            stopped = eventually_stopped(job.ranks[victim].process.pid)
            time.sleep(pause)
        finally:
            resumed = job.signal(victim, signal.SIGCONT)
        operations = job.finish_ops(cases, within=pause + 60)
        if not stopped:
            raise Broken(f"the fault did not happen: rank {victim} was not stopped")
        self.confirm(job)
        after = job.state()
        blamed = sorted(paths(before) ^ paths(after))
        if blamed or len(links(after)) != len(links(before)):
            raise Broken(f"a pause of {pause:.2f} s of rank {victim} cost connections: {blamed}")
        suspected = sum(after[rank]["stats"]["links_suspected"]
                        - before[rank]["stats"]["links_suspected"] for rank in after)
        met = [op for op in operations if op.end >= resumed]
        record.add(rank=victim, pause=pause, during=bool(met),
                   suspected=suspected,
                   after=max(0.0, met[0].end - resumed) if met else None)

    def figures(self, record: Record) -> List[Figure]:
        pauses = record.of("pause")
        return [Figure("longest pause", max(pauses), None, "s"),
                Figure("errors or lost connections", 0.0, 0, ""),  # the first one breaks the run
                Figure("connections suspected", sum(record.of("suspected")), 0, ""),
                *spread("finished after the pause", record.of("after"))]


def eventually_stopped(pid: int) -> bool:
    """Whether the kernel says within a second that the process is stopped."""
    deadline = time.monotonic() + 1
    while time.monotonic() < deadline:
        with open(f"/proc/{pid}/stat", encoding="ascii") as file:
            if file.read().rpartition(")")[2].split()[0] == "T":
                return True
        time.sleep(0.001)
    return False


def paths(state: Dict[int, Any]) -> "set[str]":
    """Both ends of every connection, ports included: a new connection has another path."""
    return {peer["path"] for known in state.values() for rail in known["rails"]
            for peer in rail["peers"]}
