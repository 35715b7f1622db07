"""What the bench needs of a communicator, whichever library it belongs to."""

from __future__ import annotations

import os
from abc import abstractmethod
from typing import Any, Dict, List, Optional, Protocol, Sequence, TypedDict

from .counters import transmitted_bytes


class _Shared(TypedDict, total=False):
    shm_bytes_sent: int  # of bytes_sent, through memory shared with ranks of this host


class RailCount(_Shared):
    """What one rail of this rank has carried so far. More keys are not looked at."""

    name: str  # the same at every call
    device: str
    transport: str  # "tcp", "ofi"
    bytes_sent: int


class Comm(Protocol):
    """What measure() calls on a library's communicator; all but rails() and stats() are collective.

    nezha.Communicator is one. The driver of another library derives its own from this class: Python
    makes no object of a class that lacks a part, and names the part. Only all_reduce is compared with
    other libraries; the further collectives of collectives.CASES are those of nezha.Communicator.
    """

    rank: int
    world_size: int

    @abstractmethod
    def all_reduce(self, x: Any, op: str = "sum", *, out: Any = None,
                   algorithm: Optional[str] = None) -> Any:
        """Combines the NumPy arrays `x` of all ranks, in place or into `out`; blocks.

        measure() combines its own float64 numbers with it, too: with "sum", "max" and "min".
        """

    @abstractmethod
    def barrier(self) -> Any:
        """Returns when every rank has called it."""

    @abstractmethod
    def rails(self) -> List[RailCount]:
        """This rank's rails, always the same ones. A library that does not count gives what the
        interfaces have sent."""

    def stats(self) -> Dict[str, Any]:
        """As Communicator.stats(), of which "aggregation" is looked at: libraries without aggregation
        nodes have none."""
        return {}


def interface_rails(devices: Sequence[str]) -> List[RailCount]:
    """The lab's devices for a library that counts no bytes: what the interfaces have sent, read by one
    rank of a node. Needs LOCAL_RANK, which the launcher sets."""
    sent = transmitted_bytes() if os.environ["LOCAL_RANK"] == "0" else {}
    return [{"name": device, "device": device, "transport": "tcp", "bytes_sent": sent.get(device, 0)}
            for device in devices]
