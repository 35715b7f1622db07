"""What a run of messages is about, and what came of it: records that travel between the processes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar, Dict, List

from ..cli.errors import BenchError
from .worker_records import Result, Spec
from ..cli.sizes import format_size

POLICIES = ("pull", "modulo", "round_robin", "random", "static", "local_dynamic", "local_dynamic_striped",
            "dynamic", "hybrid")
MESSAGES_MAX = 20_000  # of one rank in one run: about as many as a Python program sends in seconds
LOAD_MAX = 4.0
WARM_UP = 0.3  # this part of a run is not measured: queues fill


@dataclass
class MessageSpec(Spec):
    """One launch: a policy, and all means and loads with it, one run each. The same on every rank.

    limit: bytes per second that a node's rails carry one way, which is a load of 1. seconds: for which
    each run offers messages.
    """

    policy: str
    means: List[int]
    loads: List[float]
    limit: float
    seconds: float
    seed: int
    config: Dict[str, str] = field(default_factory=dict)

    def check(self) -> None:
        """Raises BenchError for more messages than can be sent, and for fewer than say anything."""
        for mean in self.means:
            most, fewest = (load * self.limit * self.seconds / mean
                            for load in (max(self.loads), min(self.loads)))
            if most > MESSAGES_MAX:
                raise BenchError(
                    f"--mean {format_size(mean)} at load {max(self.loads):g} makes {most:.0f} messages "
                    f"of each rank in {self.seconds:g} s, and {MESSAGES_MAX} is what a program in Python "
                    "keeps up with: give slower rails (--rates), less --seconds, or larger messages")
            if fewest < 10:
                raise BenchError(
                    f"--mean {format_size(mean)} at load {min(self.loads):g} makes fewer than 10 "
                    f"messages of each rank in {self.seconds:g} s: give more --seconds, or faster rails "
                    "(--rates)")


@dataclass
class Record(Result):
    """What one run measured, all ranks together, behind its warm-up.

    offered, accepted: load, of what was to be sent and of what was delivered in the measured time.
    *_us: from when a message was to be sent until it was received. late_us: 99 % of the sends were issued
    no later than so long after that; a bench that is late itself measures the program and not the rails.
    wrong: messages that did not arrive as they were sent. shares: of all bytes, by rail.
    """

    PREFIX: ClassVar[str] = "@messages "

    policy: str
    mean: int
    load: float
    messages: int
    offered: float
    accepted: float
    mean_us: float
    median_us: float
    p99_us: float
    late_us: float
    wrong: int
    shares: List[float]

    @property
    def label(self) -> str:
        """What a progress bar shows of it."""
        return f"{self.policy} {format_size(self.mean)} {self.load:g}"
