"""A message, or a fixed part of one, on its way to rails: where it may go, what it still waits for."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Callable, List, Sequence, Set, Tuple

from .ports import Port


@dataclass
class Job:
    """Bytes from one host to another that wait for a port, or for the answers to requests.

    rails: where they may go, the preferred first. spread: over all that are free, not the first alone.
    priority: (time of the first request, host, process); of two requests that meet the smaller one
    wins, and a refused one keeps it, so that every request is the oldest at last.
    """

    size: float
    host: int
    to_host: int
    rails: Sequence[int]
    spread: bool
    reserves: bool
    priority: Tuple[float, int, int]
    done: Callable[[], None]
    tried: Set[int] = field(default_factory=set)
    refusals: int = 0
    unanswered: int = 0
    granted: List["Request"] = field(default_factory=list)
    parts_left: int = 0


class Request:
    """A reservation that was asked for: `port` here, `target` there."""

    __slots__ = ("job", "port", "target", "is_withdrawn")

    def __init__(self, job: Job, port: Port, target: Port) -> None:
        self.job, self.port, self.target = job, port, target
        self.is_withdrawn = False


def is_older(one: Request, other: Request) -> bool:
    """Whether `one` goes first: the total order on which the absence of deadlock rests."""
    return one.job.priority < other.job.priority
