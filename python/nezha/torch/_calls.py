"""What all operations of a group share: refusing when it is over, marks, errors, devices."""

from __future__ import annotations

import functools
from typing import Any, Callable, Dict, List, NoReturn, Optional, Sequence, Tuple

import torch
import torch.autograd.profiler as profiler

from .. import errors
from ._failures import translate
from ._work import Work, seconds_of

Call = Tuple[Callable[..., Any], Sequence[Any], Dict[str, Any]]


class Calls:
    """The state of one group at one rank.

    _comm: the Communicator, or None before the first reconfigure.
    _timeout: seconds for operations whose caller named none.
    _over: why the group takes no more operations, or None.
    _devices: runs operations on tensors of an accelerator; see cuda.py.
    """

    _name = "nezha"
    _comm: Any
    _timeout: Optional[float]
    _over: Optional[str]
    _sequence: int
    _devices: Any

    def _start(self, opts: Any, tensors: Sequence[torch.Tensor], finish: Any,
               issue: Callable[..., Any], *args: Any, **kwargs: Any) -> Optional[Work]:
        timeout = self._timeout if opts is None else self._seconds(opts)
        if self._returns_at_once(opts):
            return Work(issue(*args, timeout=timeout, async_op=True, **kwargs), tensors, finish)
        # This thread drives the operation and is done with it: no handle, no other thread.
        issue(*args, timeout=timeout, **kwargs)
        if finish is not None:
            finish()
        return self._handle_of_over(tensors)

    def _start_all(self, opts: Any, tensors: Sequence[torch.Tensor], finish: Any,
                   calls: List[Call]) -> Optional[Work]:
        at_once = self._returns_at_once(opts)
        with self._comm.batch(timeout=self._seconds(opts), async_op=at_once) as batch:
            for issue, args, kwargs in calls:
                issue(*args, **kwargs)
        if at_once:
            return Work(batch.work, tensors, finish)
        if finish is not None:
            finish()
        return self._handle_of_over(tensors)

    def _returns_at_once(self, opts: Any) -> bool:
        """Whether the caller waits later, if at all. Messages have no options to say so."""
        return opts is None or opts.asyncOp

    def _handle_of_over(self, tensors: Sequence[torch.Tensor]) -> Optional[Work]:
        """What torch gets for an operation that was over when its call returned."""
        del tensors
        return None

    def _seconds(self, opts: Any) -> Optional[float]:
        timeout = opts.timeout
        return self._timeout if timeout.days < 0 else seconds_of(timeout)

    def _raise(self, error: BaseException) -> NoReturn:
        """Raises an operation's error as callers of torch know it."""
        translated = translate(error) if isinstance(error, errors.Error) else error
        if translated is error:
            raise error
        raise translated from error

    def _check_open(self) -> None:
        if self._over is not None:
            raise errors.InvalidArgument(self._over)
        if self._comm is None:
            raise errors.InvalidArgument("the group has no members yet: call reconfigure() first")


class Asynchronous(Calls):
    """Calls that return at once, whatever the options say."""

    def _returns_at_once(self, opts: Any) -> bool:
        del opts
        return True


def collective(mark: str, device: Optional[Callable[..., torch.Tensor]]) -> Callable[..., Any]:
    """Makes a method of Calls an operation.

    mark: its name in profiles, after the backend's.
    device: picks, of the arguments, the tensor that says on which device the operation runs.
    """
    def decorate(body: Callable[..., Optional[Work]]) -> Callable[..., Optional[Work]]:
        name = body.__name__

        @functools.wraps(body)
        def operation(self: Calls, *args: Any, **kwargs: Any) -> Optional[Work]:
            if self._over is not None or self._comm is None:
                self._check_open()
            self._sequence += 1
            try:
                if device is not None:
                    where = device(*args, **kwargs)
                    if not where.is_cpu:
                        work: Optional[Work] = self._devices.run(name, body, args, kwargs,
                                                                 where.device)
                        return work
                if profiler._is_profiler_enabled:
                    # The event ends with the call, also where the operation goes on: one that ended on
                    # another thread, or after the profiler, would crash torch.
                    with torch.profiler.record_function(f"{self._name}:{mark}"):
                        return body(self, *args, **kwargs)
                return body(self, *args, **kwargs)
            except errors.Error as error:
                self._raise(error)
        return operation
    return decorate
