"""The threads of a process on which futures are completed, and so the callbacks of programs run.

A callback may wait for other futures, take seconds, or raise. So no thread here is one that anything in
Nezha waits for, and there are as many as callbacks that block, and one. In the ordinary case that is one
thread: callbacks that return soon run on it one after the other. A thread without work for _IDLE_S ends.
"""

from __future__ import annotations

import time
import threading
import traceback
from collections import deque
from typing import Callable, Deque, Optional, Set

# When no thread has taken a piece for that long although one waits, all are taken to block.
PATIENCE_S = 0.005
_IDLE_S = 10.0

Piece = Callable[[], None]


class Callbacks:
    """Calls each piece that it is given once, in the order in which they came.

    Any thread may call any method, and none but stop() blocks. A piece that is held up by those before
    it begins when somebody calls relieve().
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._waiting: Deque[Piece] = deque()
        self._moved = 0.0  # when the oldest of them became the oldest
        self._threads: Set[threading.Thread] = set()
        self._idle = 0  # threads that wait for a piece, or have just been started
        self._stopping = False

    def run(self, piece: Piece) -> None:
        """Has `piece` called by one of the threads. After stop() it is dropped."""
        with self._changed:
            if self._stopping:
                return
            if not self._waiting:
                self._moved = time.monotonic()
            self._waiting.append(piece)
            if self._idle:
                self._changed.notify()
            elif not self._threads:
                self._start_thread()

    def relieve(self) -> bool:
        """Starts a thread where all seem to block; whether any piece waits."""
        with self._changed:
            if not self._waiting:
                return False
            if not self._idle and time.monotonic() - self._moved >= PATIENCE_S:
                self._start_thread()
            return True

    def stop(self, patience_s: float) -> None:
        """Drops what waits, and ends the threads but those that a callback holds for `patience_s`."""
        with self._changed:
            self._stopping = True
            self._waiting.clear()
            self._changed.notify_all()
            threads = self._threads - {threading.current_thread()}
        deadline = time.monotonic() + patience_s
        for thread in threads:
            thread.join(max(0.0, deadline - time.monotonic()))

    def _start_thread(self) -> None:
        thread = threading.Thread(target=self._serve, name="nezha-callbacks", daemon=True)
        try:
            thread.start()
        except RuntimeError:  # the process may have no more: relieve() tries again
            return
        self._threads.add(thread)
        self._idle += 1

    def _serve(self) -> None:
        while self._serve_one():
            pass

    def _serve_one(self) -> bool:
        # A function of its own, so that an idle thread holds nothing of the last piece.
        piece = self._next()
        if piece is None:
            return False
        try:
            piece()
        except Exception:  # of the program's: its others go on
            traceback.print_exc()
        with self._changed:
            self._idle += 1
        return True

    def _next(self) -> Optional[Piece]:
        """The oldest piece; None when this thread shall end."""
        with self._changed:
            while not self._waiting and not self._stopping:
                if not self._changed.wait(_IDLE_S):
                    break
            self._idle -= 1
            if self._waiting:
                self._moved = time.monotonic()
                return self._waiting.popleft()
            self._threads.discard(threading.current_thread())
            return None
