"""The one thread of a process that learns when the operations of futures are over.

A future is asked for only by those who chain on it (DDP, functional collectives); wait() never needs
this thread. It waits for the oldest operation in the core and looks at the others in between, so an
operation that hangs in one group holds up no other group. What is over is completed, and its callbacks
run, on other threads (_callbacks.py): this one runs nothing of the program's. It is started by the first
future, ends with the interpreter, and a forked child gets its own.
"""

from __future__ import annotations

import atexit
import os
import threading
from typing import Any, List, Optional

from ._callbacks import PATIENCE_S, Callbacks

# How long the thread stays with the oldest operation before it looks at the others.
_SLICE_S = 0.002
_JOIN_S = 1.0


class Completer:
    """Calls `settle_within(seconds)` of what was added until it says True, and has
    `complete_future()` called then, once."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._pending: List[Any] = []
        self._thread: Optional[threading.Thread] = None
        self._stopping = False
        self._callbacks = Callbacks()

    def add(self, work: Any) -> None:
        """Takes care of one operation. After stop() nothing is done any more."""
        with self._changed:
            if self._stopping:
                return
            if self._thread is None:
                thread = threading.Thread(target=self._run, name="nezha-futures", daemon=True)
                thread.start()
                self._thread = thread
            self._pending.append(work)
            self._changed.notify()

    def stop(self) -> None:
        """Leaves what is unfinished, and ends the threads but those that a callback holds."""
        with self._changed:
            self._stopping = True
            self._pending.clear()
            self._changed.notify()
        if self._thread is not None:
            self._thread.join(_JOIN_S)
        self._callbacks.stop(_JOIN_S)

    def _run(self) -> None:
        while self._wait_for_operations():
            self._look()

    def _wait_for_operations(self) -> bool:
        """True when there are some, False when this thread shall end."""
        with self._changed:
            while not self._pending and not self._stopping:
                self._changed.wait(PATIENCE_S if self._callbacks.relieve() else None)
            return not self._stopping

    def _look(self) -> None:
        with self._changed:
            works = list(self._pending)
        finished = [work for index, work in enumerate(works)
                    if work.settle_within(0.0 if index else _SLICE_S)]
        if finished:
            done = set(map(id, finished))
            with self._changed:
                self._pending = [work for work in self._pending if id(work) not in done]
        for work in finished:
            self._callbacks.run(work.complete_future)
        self._callbacks.relieve()


completer = Completer()


def _renew() -> None:
    global completer
    completer = Completer()


os.register_at_fork(after_in_child=_renew)
atexit.register(lambda: completer.stop())
