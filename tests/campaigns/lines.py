"""A child process that is spoken to in lines of JSON, with a deadline for every answer."""

from __future__ import annotations

import json
import queue
import signal
import subprocess
import threading
import time
from typing import Any, Dict, Optional

_DUMP_S = 1.0  # for the stacks of a process that hangs


class Broken(AssertionError):
    """The library did what it must not: wrong bits, an error, a leak, a hang; or a fault that was to
    happen did not."""


class Silent(Broken):
    """A child hung, or ended without an answer."""


class LineProcess:
    """Owns `process`, which was started with text pipes for its input and output.

    name: for messages. Sending and receiving are of one thread.
    """

    def __init__(self, name: str, process: "subprocess.Popen[str]") -> None:
        self.name = name
        self.process = process
        self._lines: "queue.Queue[Optional[str]]" = queue.Queue()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self._lines.put(line)
        self._lines.put(None)

    def send(self, command: Dict[str, Any]) -> None:
        """Raises Silent when the child has ended."""
        assert self.process.stdin is not None
        try:
            self.process.stdin.write(json.dumps(command) + "\n")
            self.process.stdin.flush()
        except OSError:
            raise Silent(f"{self.name} has ended with status {self.process.poll()}") from None

    def receive(self, within: float = 60.0) -> Any:
        """The next answer. A child that says nothing in `within` seconds prints its stacks to
        standard error and is killed: raises Silent."""
        try:
            line = self._lines.get(timeout=within)
        except queue.Empty:
            self.process.send_signal(signal.SIGUSR1)
            time.sleep(_DUMP_S)
            self.process.kill()
            raise Silent(f"{self.name} said nothing for {within:.0f} s: it hangs") from None
        if line is None:
            raise Silent(f"{self.name} ended with status {self.process.wait()}")
        return json.loads(line)

    def end(self) -> int:
        """Closes its input, waits, and kills what stays. Returns the exit status."""
        assert self.process.stdin is not None and self.process.stdout is not None
        try:
            self.process.stdin.close()
        except OSError:
            pass
        try:
            status = self.process.wait(15)
        except subprocess.TimeoutExpired:
            self.process.kill()
            status = self.process.wait()
        self._reader.join(5)
        self.process.stdout.close()
        return status
