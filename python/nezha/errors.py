"""The exceptions of Nezha: one class per code, saying what the caller can do.

Every message names what is known of rank, peer, rail, address, operation and size, and what to do. The
attributes say the same to programs: see Error.
"""

from __future__ import annotations

import json
from typing import Dict, Optional, Tuple, Type


class Error(RuntimeError):
    """Base of all errors. What is not known of an attribute is None, or () of ranks.

    code: the number of nezha.h, 8 (internal) when there is none.
    ranks: ranks of the communicator that the error is about. PeerLost: which were lost. TimedOut: for
        which this rank waited; of init(), which did not join. Mismatch: which called differently.
    rail: the name of this rank's last rail to a rank that was lost. Other ranks, which heard of the loss,
        do not know it.
    operation: what failed, or was running when the communicator failed: "all_reduce", "send", ...
    operation_number: which one of its communicator it was, from 0; ranks count alike. None of messages.
    operation_bytes: its size.
    communicator: the communicator's number, as in messages and dumps.
    """

    code = 8
    ranks: Tuple[int, ...] = ()
    rail: Optional[str] = None
    operation: Optional[str] = None
    operation_number: Optional[int] = None
    operation_bytes: Optional[int] = None
    communicator: Optional[int] = None

    def _take(self, details: str) -> None:
        """Sets the attributes from what nezha_last_error_details() wrote; unknown keys are left out."""
        known = json.loads(details)
        self.ranks = tuple(known.get("ranks", ()))
        self.rail = known.get("rail")
        self.operation = known.get("operation")
        self.operation_number = known.get("operation_number")
        self.operation_bytes = known.get("bytes")
        self.communicator = known.get("communicator")


class InvalidArgument(Error, ValueError):
    """Fix the call."""

    code = 1


class Unsupported(Error):
    """Choose another dtype, operator, algorithm or store."""

    code = 2


class TimedOut(Error, TimeoutError):
    """The operation passed its deadline and failed: retry, or raise the deadline."""

    code = 3


class WaitTimedOut(TimedOut):
    """Only the wait is over, and the operation continues: wait again, or abort it."""


class Exhausted(Error):
    """Descriptors, memory or threads ran out."""

    code = 4


class PeerLost(Error):
    """A rank died: Communicator.shrink(), or restart the group."""

    code = 5


class Mismatch(Error):
    """The ranks called different operations, or the same with different sizes."""

    code = 6


class Aborted(Error):
    """Somebody called abort."""

    code = 7


class Internal(Error):
    """A defect of Nezha: please report it."""

    code = 8


_BY_CODE: Dict[int, Type[Error]] = {
    kind.code: kind
    for kind in (InvalidArgument, Unsupported, TimedOut, Exhausted, PeerLost, Mismatch, Aborted,
                 Internal)
}


def from_code(code: int, message: str, details: str = "") -> Error:
    """The exception (not raised) for a code of nezha.h; unknown codes are Internal.

    details: the text of nezha_last_error_details(), or "" where there is none.
    """
    kind = _BY_CODE.get(code, Internal)
    if kind is TimedOut and details and json.loads(details).get("goes_on"):
        kind = WaitTimedOut
    error = kind(message)
    if details:
        error._take(details)
    return error
