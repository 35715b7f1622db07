"""Errors as torch.distributed's callers expect them.

Every error that leaves the backend is both the class of nezha.errors and torch's DistBackendError, and
lost peers and deadlines carry the words by which torch's own tools tell them apart.
"""

from __future__ import annotations

from typing import Dict, Type

import torch.distributed as dist

from .. import errors


class BackendTimedOut(errors.TimedOut, dist.DistBackendError):
    """An operation, or the wait for it, passed its deadline."""


class BackendPeerLost(errors.PeerLost, dist.DistBackendError):
    """A rank of the group died."""


class BackendAborted(errors.Aborted, dist.DistBackendError):
    """The group was aborted; it takes no more operations."""


class BackendMismatch(errors.Mismatch, dist.DistBackendError):
    """The ranks called different operations."""


_CLASSES: Dict[Type[errors.Error], Type[errors.Error]] = {
    errors.TimedOut: BackendTimedOut,
    errors.PeerLost: BackendPeerLost,
    errors.Aborted: BackendAborted,
    errors.Mismatch: BackendMismatch,
}
_WORDS: Dict[Type[errors.Error], str] = {
    errors.TimedOut: "timed out after",
    errors.PeerLost: "Connection closed by peer",
}
_PREFIXES: Dict[Type[errors.Error], str] = {
    errors.TimedOut: "The operation's timeout passed, it timed out after its deadline: ",
    errors.PeerLost: "Connection closed by peer: ",
}


def translate(error: errors.Error) -> errors.Error:
    """The same error for a caller of torch.distributed; those that need no change are returned."""
    kind = type(error)
    if kind not in _CLASSES:
        return error
    text = str(error)
    if _WORDS.get(kind, "") not in text:
        text = _PREFIXES[kind] + text
    translated = _CLASSES[kind](text)
    translated.__dict__.update(error.__dict__)  # ranks, rail, operation
    return translated
