"""What a run between pairs of ranks is about, and what came of it; both travel between processes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar, Dict, List, Optional

from .worker_records import Result, Spec

Matrix = List[List[float]]  # [sender][receiver]


@dataclass
class P2pSpec(Spec):
    """One launch, in which every rank has one rail. The same on every rank.

    size: bytes of a message. seconds: of each rate and latency of each pair. rates: by device, raw bytes
    per second; devices without one are asked for theirs.
    """

    rail: int
    size: int
    seconds: float
    config: Dict[str, str] = field(default_factory=dict)
    rates: Dict[str, float] = field(default_factory=dict)


@dataclass
class Port:
    """One rank's end of a rail. rate: bytes per second that it is shaped to or advertised with."""

    host: str
    device: str
    rate: Optional[float]


@dataclass
class RailMatrix(Result):
    """What one rail did between all ranks.

    host_of: the number of each rank's host. one_way, both_ways: bytes per second, of both directions
    together in both_ways. latency: seconds of a short message one way. Diagonals of these are 0. copy:
    bytes per second that each rank copied in its memory. wrong: bytes of checked messages.
    """

    PREFIX: ClassVar[str] = "@p2p "

    rail: int
    ports: List[Port]
    host_of: List[int]
    one_way: Matrix
    both_ways: Matrix
    latency: Matrix
    copy: List[float]
    wrong: int

    @property
    def label(self) -> str:
        """What a progress bar shows of it."""
        return self.ports[0].device

    @classmethod
    def from_dict(cls, data: Dict[str, object]) -> "RailMatrix":
        """The inverse of dataclasses.asdict."""
        ports = [Port(**port) for port in data.pop("ports")]  # type: ignore[attr-defined]
        return cls(ports=ports, **data)  # type: ignore[arg-type]
