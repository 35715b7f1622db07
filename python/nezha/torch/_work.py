"""Work: the handle of one operation, as torch.distributed hands it to callers."""

from __future__ import annotations

import datetime
import threading
from typing import Any, Callable, List, Optional, Sequence

import torch
import torch.distributed as dist

from .. import errors
from . import _completion
from ._failures import BackendTimedOut, translate

_ZERO = datetime.timedelta(0)


def seconds_of(timeout: Optional[datetime.timedelta]) -> Optional[float]:
    """Seconds; None for what torch calls no timeout (zero or below)."""
    if timeout is None or timeout <= _ZERO:
        return None
    return timeout.total_seconds()


class Work(dist.Work):
    """One operation of the core, what to do after it, and the future of those who want one.

    native: wait(timeout), test() and source, as nezha.Work.
    tensors: what result() and the future give.
    finish: called once, by whoever learns first that the operation has succeeded; copies results
        to where the caller wants them.

    Any thread may call any method. Errors are those of nezha.errors that are DistBackendError too.
    """

    # What a Work that needs no more than this does not set itself.
    _native: Any = None
    _finish: Optional[Callable[[], None]] = None
    _settled = False
    _error: Optional[BaseException] = None
    _promise: Optional[torch.futures.Future] = None
    _future: Optional[torch.futures.Future] = None  # of _promise, for the caller

    def __init__(self, native: Any, tensors: Sequence[torch.Tensor],
                 finish: Optional[Callable[[], None]] = None) -> None:
        super().__init__()
        self._native = native
        self._tensors = tensors
        self._lock = threading.Lock()
        if finish is not None:
            self._finish = finish

    def wait(self, timeout: Optional[datetime.timedelta] = _ZERO) -> bool:
        """True when the operation has completed; raises its error.

        After `timeout` (zero: the operation's own) it raises BackendTimedOut; the operation goes on.
        """
        if not self._settled:
            seconds = seconds_of(timeout)
            if not self._settle_or_wait(seconds):
                raise BackendTimedOut(f"wait() timed out after {(seconds or 0) * 1e3:g} ms; the "
                                      "operation continues: wait again, or abort the group")
        if self._error is not None:
            raise self._error.with_traceback(None)
        return True

    def is_completed(self) -> bool:
        """Whether the operation is over, successfully or not. Does not wait."""
        return self._settled or self.settle_within(0.0)

    def is_success(self) -> bool:
        """Whether the operation is over and did not fail."""
        return self.is_completed() and self._error is None

    def exception(self) -> Optional[BaseException]:
        """The error of a failed operation."""
        return self._error

    def result(self) -> List[torch.Tensor]:
        """The tensors that the operation wrote."""
        return list(self._tensors)

    def synchronize(self) -> None:
        """The same as wait() for memory of the host."""
        self.wait()

    def source_rank(self) -> int:
        """The rank whose message a completed receive took."""
        if self._native is None:
            raise errors.InvalidArgument("source_rank() belongs to a completed receive")
        return int(self._native.source)

    _source_rank = source_rank

    def source_if_receive(self) -> Optional[int]:
        """source_rank() of a completed receive from any rank, None for other operations."""
        return getattr(self._native, "source", None)

    def get_future(self) -> torch.futures.Future:
        """A future with result() as its value. Its callbacks run on threads of their own."""
        with self._lock:
            if self._future is None:
                # What set_exception() leaves in a future is, for C++, a value: DDP would take tensors
                # from it and crash. An error for both only comes out of a callback.
                self._promise = self._new_future()
                future = self._promise.then(self._outcome)
                if self._settled:
                    self.complete_future()  # nobody has a callback in it yet
                else:
                    _completion.completer.add(self)
                self._future = future
            return self._future

    def complete_future(self) -> None:
        """Gives the future its value and calls its callbacks. Once, and on a thread that nobody waits
        for: wait() and is_completed() leave it to the completer."""
        assert self._promise is not None
        self._promise.set_result(self.result() if self._error is None else None)

    def settle_within(self, seconds: float) -> bool:
        """Waits at most `seconds`; whether the operation is over. Raises nothing of it."""
        return self._settled or self._settle_or_wait(seconds)

    def _settle_or_wait(self, seconds: Optional[float]) -> bool:
        native = self._native
        error: Optional[errors.Error] = None
        try:
            if seconds == 0.0:
                if not native.test():
                    return False
            else:
                native.wait(seconds)
        except errors.TimedOut:  # of the wait, or of the operation?
            try:
                if not native.test():
                    return False
            except errors.Error as failed:
                error = failed
        except errors.Error as failed:
            error = failed
        self._settle(error)
        return True

    def _settle(self, error: Optional[errors.Error]) -> None:
        with self._lock:
            if self._settled:
                return
            failure: Optional[BaseException] = None
            if error is not None:
                failure = translate(error)
                failure.__cause__ = None if failure is error else error
            if error is None and self._finish is not None:
                try:
                    self._finish()
                except Exception as broken:  # shown to whoever waits
                    failure = broken
            self._finish = None
            self._error = failure
            self._settled = True

    def _new_future(self) -> torch.futures.Future:
        return torch.futures.Future()

    def _outcome(self, promise: torch.futures.Future) -> List[torch.Tensor]:
        if self._error is not None:
            raise self._error
        tensors: List[torch.Tensor] = promise.value()
        return tensors


class Done(Work):
    """The Work of an operation that was over when its call returned."""

    _settled = True
    _lock = threading.Lock()  # of all, held for an instant by those who ask for a future

    def __init__(self, tensors: Sequence[torch.Tensor]) -> None:
        dist.Work.__init__(self)
        self._tensors = tensors
