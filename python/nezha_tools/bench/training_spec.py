"""What to train, what a step of it sends, and what was measured. All of it travels as JSON."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import ClassVar, Dict, List, Optional

from ..cli.errors import BenchError
from nezha.files import explained
from nezha.files import read_text, whole_file
from .worker_records import Result, Spec


@dataclass
class TrainSpec(Spec):
    """One launch; the same on every rank.

    mode: "record" (one rank, no communication: writes the schedule), "replay" (the schedule's
    all-reduces with sleeps between them) or "ddp" (the real training).
    """

    mode: str
    model: str
    batch: int  # images a step, on each rank
    steps: int
    backend: str = "nezha"
    bucket_mb: Optional[float] = None  # DDP's bucket_cap_mb; None: DDP's default
    threads: int = 1  # for the computation of one rank
    schedule: str = ""  # path; written by "record", read by "replay"
    devices: List[str] = field(default_factory=list)  # whose counters are read, with gloo


@dataclass
class Schedule:
    """One training step without communication: what becomes ready to be sent, and when.

    gaps_s[i]: seconds of computation before bucket i is ready, since bucket i-1 was (for i = 0:
    since the step began); tail_s: from the last bucket to the end of the step.
    """

    model: str
    batch: int
    bucket_mb: Optional[float]
    threads: int
    parameters: int
    tensors: List[int]  # bytes of each parameter's gradient
    buckets: List[int]  # bytes, in the order in which they become ready
    gaps_s: List[float]
    tail_s: float

    def scaled(self, factor: float) -> "Schedule":
        """The same step on a machine that computes in `factor` of the time."""
        return Schedule(**{**asdict(self), "gaps_s": [factor * gap for gap in self.gaps_s],
                           "tail_s": factor * self.tail_s})

    def save(self, path: Path) -> None:
        """Writes the schedule as JSON. Raises BenchError."""
        try:
            with whole_file(path) as place:
                place.write_text(json.dumps(asdict(self)) + "\n", encoding="utf-8")
        except OSError as error:
            raise BenchError(f"cannot write the schedule {path}: {explained(error)}") from error

    @classmethod
    def load(cls, path: Path) -> "Schedule":
        """Reads what `save` wrote. Raises BenchError for anything else."""
        try:
            found = cls(**json.loads(read_text(path)))
            numbers = [*found.buckets, *found.gaps_s, found.tail_s]
            right = len(found.buckets) == len(found.gaps_s) > 0 and min(numbers) >= 0
        except (OSError, ValueError, TypeError) as error:
            raise BenchError(f"{path} holds no schedule ({error}): record one with "
                             "nezha bench train --replay --schedule FILE") from error
        if not right:
            raise BenchError(f"{path} holds no schedule: as many gaps as buckets are needed, at "
                             "least one, and none negative")
        return found


@dataclass
class Step(Result):
    """One timed step; seconds of the slowest rank.

    active_s: at least one all-reduce was under way; waiting_s: nothing was computed any more, only
    waited for.
    """

    PREFIX: ClassVar[str] = "@step "

    seconds: float
    active_s: float
    waiting_s: float
    wrong: int  # for "ddp": sums and parameters that are not what they must be; a replay ends at one
    sent: Dict[str, int] = field(default_factory=dict)  # bytes by rail, all ranks
    algorithms: List[str] = field(default_factory=list)  # of Nezha's latest all_reduces

    @property
    def label(self) -> str:
        """What a progress bar shows of it."""
        return f"{self.seconds:.2f} s"
