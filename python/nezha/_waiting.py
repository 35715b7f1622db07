"""Waiting for one of several operations, for all of them, and in a coroutine."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Generator, Iterator, List, Optional, Sequence, TypeVar

from .errors import Error, InvalidArgument, WaitTimedOut

if TYPE_CHECKING:
    from ._native import Work

Result = TypeVar("Result")
# Between two looks: none in the first millisecond, in which short operations end, and then up to as much.
_EAGER_S = _LONGEST_PAUSE_S = 1e-3


def wait_all(works: Sequence[Work[Result]], *, timeout: Optional[float] = None) -> List[Result]:
    """The results of all operations, in the order of `works`, when all have completed.

    works: what calls with async_op=True returned, also of several communicators.
    timeout: seconds for all of them together; None: without limit.

    Raises the error of the first of `works` that failed, when all are over, and WaitTimedOut where some
    are still running after `timeout`; these continue.
    """
    end = None if timeout is None else time.monotonic() + timeout
    results: List[Result] = []
    failed: Optional[Error] = None
    for work in works:
        try:
            results.append(work.wait(None if end is None else max(0.0, end - time.monotonic())))
        except WaitTimedOut:
            raise
        except Error as error:
            failed = failed or error
    if failed is not None:
        raise failed
    return results


def wait_any(works: Sequence[Work[Any]], *, timeout: Optional[float] = None) -> int:
    """The index in `works` of an operation that is over; the lowest, where several are.

    Its wait() then returns at once: the result, or the error of one that failed.

    timeout: seconds; None: without limit. Raises WaitTimedOut where all are still running then; they
    continue. Raises InvalidArgument where `works` is empty.
    """
    if not works:
        raise InvalidArgument("wait_any: works is empty: pass at least one")
    end = None if timeout is None else time.monotonic() + timeout
    for pause in _pauses():
        for index, work in enumerate(works):
            if _is_over(work):
                return index
        if end is not None and time.monotonic() >= end:
            break
        time.sleep(pause)
    raise WaitTimedOut(f"none of {len(works)} operations was over after {timeout:g} s of wait_any(); "
                       "they continue: wait again, or abort() one")


def awaited(work: Work[Result]) -> Generator[Any, None, Result]:
    """What `await work` does: looks whether the operation is over, and lets other coroutines run."""
    import asyncio

    for pause in _pauses():
        if _is_over(work):
            break
        yield from asyncio.sleep(pause).__await__()
    return work.wait()


def _is_over(work: Work[Any]) -> bool:
    try:
        return work.test()
    except Error:  # its wait() raises the same
        return True


def _pauses() -> Iterator[float]:
    begin = time.monotonic()
    while time.monotonic() - begin < _EAGER_S:
        yield 0.0
    pause = _LONGEST_PAUSE_S / 16
    while True:
        yield pause
        pause = min(2 * pause, _LONGEST_PAUSE_S)
