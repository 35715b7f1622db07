"""The one thread of a process that completes futures.

A future is asked for only by those who chain on it (DDP, functional collectives); wait() never needs
this thread. It waits for the oldest operation in the core and looks at the others in between, so an
operation that hangs in one group holds up no other group. It is started by the first future, ends
with the interpreter, and a forked child gets its own.
"""

from __future__ import annotations

import atexit
import os
import threading
from typing import Any, List, Optional

# How long the thread stays with the oldest operation before it looks at the others.
_SLICE_S = 0.002
_JOIN_S = 1.0


class Completer:
    """Calls `settle_within(seconds)` of what was added until it says True."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._pending: List[Any] = []
        self._thread: Optional[threading.Thread] = None
        self._stopping = False

    def add(self, work: Any) -> None:
        """Takes care of one operation. After stop() nothing is done any more."""
        with self._changed:
            if self._stopping:
                return
            self._pending.append(work)
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="nezha-futures", daemon=True)
                self._thread.start()
            else:
                self._changed.notify()

    def stop(self) -> None:
        """Leaves what is unfinished, and ends the thread unless a callback holds it."""
        with self._changed:
            self._stopping = True
            self._pending.clear()
            self._changed.notify()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(_JOIN_S)

    def _run(self) -> None:
        while True:
            with self._changed:
                while not self._pending and not self._stopping:
                    self._changed.wait()
                if self._stopping:
                    return
                works = list(self._pending)
            finished = [work for index, work in enumerate(works)
                        if work.settle_within(0.0 if index else _SLICE_S)]
            if finished:
                done = set(map(id, finished))
                with self._changed:
                    self._pending = [work for work in self._pending if id(work) not in done]


completer = Completer()


def _renew() -> None:
    global completer
    completer = Completer()


os.register_at_fork(after_in_child=_renew)
atexit.register(lambda: completer.stop())
