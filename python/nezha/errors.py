"""The exceptions of Nezha: one class per code, saying what the caller can do.

Every message names what is known of rank, peer, rail, address, operation and size, and what to do.
"""

from __future__ import annotations

from typing import Dict, Type


class Error(RuntimeError):
    """Base of all errors; `code` is the number of nezha.h, 8 (internal) when there is none."""

    code = 8


class InvalidArgument(Error, ValueError):
    """Fix the call."""

    code = 1


class Unsupported(Error):
    """Choose another dtype, operator, algorithm or store."""

    code = 2


class TimedOut(Error, TimeoutError):
    """Retry, or raise the deadline."""

    code = 3


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


def from_code(code: int, message: str) -> Error:
    """The exception (not raised) for a code of nezha.h; unknown codes are Internal."""
    return _BY_CODE.get(code, Internal)(message)
