"""R24: the network of one node, or of all, is silent on every rail for seconds, and comes back."""

from __future__ import annotations

import contextlib
import random
import time
from typing import Callable, List, Tuple

from nezha.lab import Lab

from campaigns.campaign import Campaign, Record
from campaigns.cases import mixed
from campaigns.job import Job, job_in
from campaigns.lines import Broken
from campaigns.measure import Figure, spread
from campaigns.nemesis import Nemesis

NODES = 3
RAILS = 2
LABS = 8  # struck together: nearly all of the time passes in waiting
# What a job allows, and how long its outages last, less what it takes to begin and end all: seconds.
SHORT = (10.0, 1.0, 7.5)
LONG = (45.0, 10.0, 40.0)
_LONG_EVERY = 5  # waves
_OPERATIONS = 200
_WITHIN_S = 120.0
_WAVES_MAX = 5  # that may take too long one after the other, on a machine that is slow to give rails back


class Outage(Campaign):
    """Nobody may get an error, and every result is right: idle or under work, one node or all."""

    id = "R24"
    title = "networks silent on all rails"
    wanted = (2, 500, 500)
    budget_s = 1800.0

    def run(self, record: Record) -> None:
        """Waves of outages, one in each lab, with jobs of both kinds."""
        labs = min(LABS, record.wanted)
        with contextlib.ExitStack() as stack:
            places = [self._place(stack, record, LONG if at % 3 == 2 else SHORT) for at in range(labs)]
            for number, rng in record.faults():
                is_long = number // LABS % _LONG_EVERY == _LONG_EVERY - 1
                struck = [p for p in places if p.is_long or not is_long]
                del struck[record.wanted - len(record.samples):]
                if not any(self._wave(record, struck, rng, is_long) for _ in range(_WAVES_MAX)):
                    raise Broken(f"this machine takes too long to end outages: {_WAVES_MAX} waves were "
                                 "longer than their jobs allow")

    @staticmethod
    def _place(stack: contextlib.ExitStack, record: Record,
               allowed: Tuple[float, float, float]) -> "Place":
        lab = stack.enter_context(Lab(NODES, ["1gbit"] * RAILS))
        nemesis = stack.enter_context(Nemesis(lab))
        jobs = stack.enter_context(contextlib.ExitStack())

        def begin() -> Job:
            return jobs.enter_context(job_in(lab, mixed(1 << 14), record, outage_s=allowed[0],
                                             timeout_s=_WITHIN_S))

        return Place(nemesis, jobs, begin, allowed)

    def _wave(self, record: Record, places: List["Place"], rng: random.Random, is_long: bool) -> int:
        """How many outages were survived: all but those that took longer than the job allows."""
        _, least, most = LONG if is_long else SHORT
        length = rng.uniform(least, most)
        for place in places:
            place.begin(rng)
        time.sleep(length)
        for place in places:
            place.end()  # each begins its operations, so that none waits for those of another lab
        survived = 0
        for place in places:
            try:
                after = place.finish()
            except Broken as broken:
                if not place.took_too_long() or "PeerLost" not in str(broken):
                    raise
                place.begin_again()
                continue
            record.add(length=place.back - place.gone, idle=place.idle, whole=len(place.struck) > 1,
                       dropped=place.dropped, after=after)
            survived += 1
        return survived

    def figures(self, record: Record) -> List[Figure]:
        """How long after the return of the network the operation that waited for it was over."""
        found: List[Figure] = []
        for idle in (False, True):
            for whole in (False, True):
                name = f"{'idle' if idle else 'busy'}, {'all nodes' if whole else 'one node'}: over after"
                values = record.of("after", idle=idle, whole=whole)
                if values:
                    found += spread(name, values)
        return found


class Place:
    """A lab and its job, and the outage that it has now."""

    def __init__(self, nemesis: Nemesis, jobs: contextlib.ExitStack, begin: Callable[[], Job],
                 allowed: Tuple[float, float, float]) -> None:
        self.nemesis, self._jobs, self._begin_job, self._allowed_s = nemesis, jobs, begin, allowed[0]
        self.job, self.is_long = begin(), allowed is LONG
        self.idle, self.struck, self.cases = False, list(range(NODES)), [0]
        # When the first rail was silent, the last was, the last was to be back, and was back.
        self.first = self.gone = self.back = self.over = 0.0
        self.dropped = 0

    def begin(self, rng: random.Random) -> None:
        """Chooses, and silences every rail of the nodes."""
        self.idle = rng.random() < 0.4
        self.struck = [rng.randrange(NODES)] if rng.random() < 0.5 else list(range(NODES))
        self.cases = [rng.randrange(len(self.job.cases)) for _ in range(_OPERATIONS)]
        if not self.idle:
            begin = self.job.start_ops(self.cases)
            time.sleep(max(0.0, begin - time.monotonic()) + rng.uniform(0, 0.01))
        self.first = time.monotonic()
        for node in self.struck:
            for rail in range(RAILS):
                self.gone = self.nemesis.black_hole(node, rail, "both")

    def end(self) -> None:
        """Gives the rails back, and begins an idle job's operations. Raises Broken where nothing had been
        lost."""
        self.dropped = sum(self.nemesis.dropped(node, rail)
                           for node in self.struck for rail in range(RAILS))
        if not self.dropped:
            raise Broken(f"the fault did not happen: no packet of nodes {self.struck} was lost")
        for node in self.struck:
            for rail in range(RAILS):
                self.back = self.nemesis.restore(node, rail)
        self.over = time.monotonic()
        if self.idle:
            self.job.start_ops(self.cases)

    def took_too_long(self) -> bool:
        """Whether the outage was longer than the job allows, so that it may have cost a rank."""
        return self.over - self.first > self._allowed_s

    def begin_again(self) -> None:
        """Another job in the place of this one."""
        with contextlib.suppress(Broken), self._jobs:
            raise Broken("its outage took too long")  # so that the job is killed
        self.job = self._begin_job()

    def finish(self) -> float:
        """Seconds from the return to the end of the operation that came over it. Raises Broken for an
        error, or wrong bits."""
        operations = self.job.finish_ops(self.cases, within=_WITHIN_S)
        over = [op.end for op in operations if op.end > self.back]
        return min(over) - self.back if over else 0.0
