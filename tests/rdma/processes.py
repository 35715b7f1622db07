"""Inside the guest: processes whose output is read while they run, all with a deadline."""

from __future__ import annotations

import os
import queue
import subprocess
import tempfile
import threading
import time
from typing import Callable, Dict, List, Optional, Sequence

from .network import Failure


class Process:
    """A command with its lines. Ended, whatever happens, by leaving the `with` block."""

    def __init__(self, words: Sequence[str], environment: Optional[Dict[str, str]] = None) -> None:
        self.words = list(words)
        self.errors = tempfile.TemporaryFile("w+")
        self.child = subprocess.Popen(words, env={**os.environ, **(environment or {})}, text=True,
                                      stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.errors)
        self.lines: List[str] = []
        self._queue: "queue.Queue[Optional[str]]" = queue.Queue()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self.child.stdout is not None
        for line in self.child.stdout:
            self._queue.put(line.rstrip("\n"))
        self._queue.put(None)

    def line(self, wanted: Callable[[str], bool], seconds: float) -> str:
        """The next line that is wanted. Raises Failure when it does not come."""
        end = time.monotonic() + seconds
        while True:
            try:
                line = self._queue.get(timeout=max(0.0, end - time.monotonic()))
            except queue.Empty:
                raise Failure(f"{self.name}: {seconds:.0f} s without the line that was waited for; "
                              f"last: {self.lines[-1:]}") from None
            if line is None:
                raise Failure(f"{self.name} ended early: {self.complaint()}")
            self.lines.append(line)
            if wanted(line):
                return line

    def say(self, text: str) -> None:
        """A line to its standard input."""
        assert self.child.stdin is not None
        self.child.stdin.write(text + "\n")
        self.child.stdin.flush()

    def status(self, seconds: float) -> int:
        """Exit status. Raises Failure when it does not end; its remaining lines are in `lines`."""
        try:
            status = self.child.wait(seconds)
        except subprocess.TimeoutExpired:
            raise Failure(f"{self.name} hangs: no end within {seconds:.0f} s") from None
        while (line := self._queue.get()) is not None:
            self.lines.append(line)
        return status

    def finish(self, seconds: float) -> List[str]:
        """Its lines, when it ended well. Raises Failure otherwise."""
        status = self.status(seconds)
        if status != 0:
            raise Failure(f"{self.name} ended with {status}: {self.complaint()}")
        return self.lines

    def complaint(self) -> str:
        """What it wrote to standard error."""
        self.errors.seek(0)
        return self.errors.read().strip()[-600:]

    @property
    def name(self) -> str:
        """For messages."""
        return os.path.basename(self.words[0])

    def __enter__(self) -> "Process":
        return self

    def __exit__(self, *_: object) -> None:
        if self.child.poll() is None:
            self.child.kill()
        self.child.wait()
