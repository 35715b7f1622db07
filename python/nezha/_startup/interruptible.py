"""Waiting for a job to form, in a way that Ctrl-C and the end of the interpreter can end at once."""

from __future__ import annotations

import atexit
import os
import threading
from typing import Any, Optional

from .. import _native
from ..communicator import Communicator, connect as connect_native
from ..errors import Error

# A host name that is being resolved cannot be called back; the interpreter ends without it.
_LONGEST_GOODBYE_S = 2.0


class _Waiting:
    """How many threads of this process are joining a job."""

    def __init__(self) -> None:
        self._count = 0
        self._changed = threading.Condition()

    def __enter__(self) -> None:
        with self._changed:
            self._count += 1

    def __exit__(self, *exception: Any) -> None:
        with self._changed:
            self._count -= 1
            self._changed.notify_all()

    def wait_for_none(self, seconds: float) -> None:
        """Returns when no thread is left, or after `seconds`."""
        with self._changed:
            self._changed.wait_for(lambda: self._count == 0, seconds)


_waiting = _Waiting()


def connect(rank: int, world_size: int, store: Optional[str], store_object: Any,
            job: Optional[str], timeout: float, config: str, mpi: Any = None) -> Communicator:
    """communicator.connect, which what a signal handler raises in the caller's store or exchange ends."""
    with _waiting:
        try:
            return connect_native(rank, world_size, store, store_object, job, timeout, config, mpi)
        except Error as error:
            interruption = _interruption(error.__cause__)
            if interruption is None:
                raise
            raise interruption from None


def _interruption(cause: Optional[BaseException]) -> Optional[BaseException]:
    """What a signal handler raised inside the caller's own store or exchange."""
    return None if isinstance(cause, Exception) else cause


def _forget() -> None:
    global _waiting
    _waiting = _Waiting()


def _end() -> None:
    _native.stop_waiting()
    _waiting.wait_for_none(_LONGEST_GOODBYE_S)


os.register_at_fork(after_in_child=_forget)
atexit.register(_end)
