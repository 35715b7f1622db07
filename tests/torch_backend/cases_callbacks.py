"""Callbacks of futures that wait, raise or take long. All ranks run each function."""

from __future__ import annotations

import datetime
import threading
from typing import Any, List

import torch
import torch.distributed as dist
from support import agree, fresh, gloo, raises

from nezha.torch import _completion


def _started(group: Any = None) -> torch.futures.Future:
    return dist.all_reduce(torch.ones(100), group=group, async_op=True).get_future()


def _attached(*groups: Any) -> List[torch.futures.Future]:
    """Futures of operations that are not over: the last rank starts its own when the others _meet()."""
    gloo()
    if dist.get_rank() == dist.get_world_size() - 1:
        dist.barrier(gloo())
    return [_started(group) for group in groups]


def _meet() -> None:
    if dist.get_rank() != dist.get_world_size() - 1:
        dist.barrier(gloo())


def _waiting(future: torch.futures.Future, event: threading.Event) -> torch.futures.Future:
    """A callback that waits for the event. At the last rank the operation may be over already, so that
    the callback would run here: there it does not wait."""
    last = dist.get_rank() == dist.get_world_size() - 1
    return future.then(lambda done: last or event.wait(200))


def nested() -> None:
    """A callback waits for an operation, whose callback waits for one: ten deep."""
    def deeper(left: int, future: torch.futures.Future) -> float:
        total: float = future.value()[0][0].item()
        return total + (_started().then(lambda done: deeper(left - 1, done)).wait() if left else 0)

    (first,) = _attached(None)
    outermost = first.then(lambda done: deeper(10, done))
    _meet()
    assert outermost.wait() == 11 * dist.get_world_size()


def many_that_wait() -> None:
    """Callbacks that wait, of any number and of several groups, keep no other future from its value."""
    groups, open_now = [fresh(), fresh()], threading.Event()
    futures = _attached(*groups * 20)
    waiting = [_waiting(future, open_now) for future in futures]
    _meet()
    for group in (None, *groups):
        agree(_started(group).wait()[0], torch.full((100,), float(dist.get_world_size())))
        _started(group).then(lambda done: done.value()).wait()
    if dist.get_rank() == 0:
        assert not any(future.done() for future in waiting)
    _started().then(lambda done: open_now.set())
    assert all(future.wait() for future in waiting)


def crossed() -> None:
    """Callbacks of two groups wait for the other ranks' and run in another order on each."""
    orders = [fresh(), fresh()]
    inner = [fresh(), fresh()]
    turned = dist.get_rank() == 0
    futures = _attached(*(orders[::-1] if turned else orders))
    chained = [future.then(lambda done, group=group: _started(group).wait())
               for future, group in zip(futures, inner[::-1] if turned else inner)]
    _meet()
    for future in chained:
        agree(future.wait()[0], torch.full((100,), float(dist.get_world_size())))


def deadline_beside_a_wait() -> None:
    """A deadline passes while a callback waits, and the future says so."""
    group, open_now = fresh(timeout=datetime.timedelta(seconds=1)), threading.Event()
    (first,) = _attached(None)
    waiting = _waiting(first, open_now)
    _meet()
    if dist.get_rank() == 0:
        raises(RuntimeError, "timed out after", _started(group).wait)
    open_now.set()
    assert waiting.wait()
    dist.barrier()


def waiting_runs_no_callback() -> None:
    """wait() returns when the operation is over, whatever callbacks its future has."""
    _attached()
    waited = threading.Event()
    work = dist.all_reduce(torch.ones(10), async_op=True)
    chained = _waiting(work.get_future(), waited)
    _meet()
    assert work.wait()
    waited.set()
    assert chained.wait()


def raising() -> None:
    """A callback that raises fails its own future; the operation's and those after it go on."""
    (first,) = _attached(None)
    failed = first.then(lambda done: 1 // 0)
    after = first.then(lambda done: "fine")
    _meet()
    raises(Exception, "division", failed.wait)
    assert after.wait() == "fine" and first.wait()
    assert _started().then(lambda done: "fine").wait() == "fine"


def in_order() -> None:
    """Those of one future run in the order in which they were attached, on one thread."""
    (first,) = _attached(None)
    seen: List[Any] = []
    for number in range(30):
        first.add_done_callback(lambda done, number=number: seen.append((number, threading.get_ident())))
    last = first.then(lambda done: threading.get_ident())
    _meet()
    thread = last.wait()
    assert [number for number, _ in seen] == list(range(30))
    if dist.get_rank() == 0:
        assert {each for _, each in seen} == {thread} and thread != threading.get_ident()


def few_threads_for_short_ones() -> None:
    """Callbacks that return at once do not need a thread each."""
    before = len(_completion.completer._callbacks._threads)
    futures = _attached(*[None] * 200)
    chained = [future.then(lambda done: 1) for future in futures]
    _meet()
    assert sum(future.wait() for future in chained) == 200
    # One is enough; those that the scheduler holds up look as if they blocked.
    assert len(_completion.completer._callbacks._threads) <= before + 20
