"""Nezha: collective communication over every network of every node at once.

    import numpy, nezha

    with nezha.init() as comm:          # the ranks that `nezha run`, torchrun or srun started
        x = numpy.ones(1 << 20, numpy.float32)
        comm.all_reduce(x)              # in place, over all rails together
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .errors import (Aborted, Error, Exhausted, Internal, InvalidArgument, Mismatch, PeerLost,
                     TimedOut, Unsupported, WaitTimedOut)

if TYPE_CHECKING:
    from ._native import Work
    from .communicator import Communicator
    from ._logging import log_to_python
    from ._startup.init import init
    from ._waiting import wait_all, wait_any

    __version__: str

__all__ = [
    "Aborted", "Communicator", "Error", "Exhausted", "Internal", "InvalidArgument", "Mismatch",
    "PeerLost", "TimedOut", "Unsupported", "WaitTimedOut", "Work", "__version__", "init",
    "log_to_python", "wait_all", "wait_any",
]

# Loaded on first use: the lab and the command's help need no native module.
_LAZY = {"Communicator": "communicator", "Work": "communicator", "init": "_startup.init",
         "log_to_python": "_logging", "wait_all": "_waiting", "wait_any": "_waiting"}


def __getattr__(name: str) -> Any:
    import importlib

    if name == "__version__":
        value: Any = importlib.import_module("._native", __name__).version()
    elif name in _LAZY:
        value = getattr(importlib.import_module(f".{_LAZY[name]}", __name__), name)
    else:
        raise AttributeError(f"module 'nezha' has no attribute {name!r}")
    globals()[name] = value
    return value
