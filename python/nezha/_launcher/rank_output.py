"""What ranks print: whole lines, each behind its rank, and the last ones kept for the report."""

from __future__ import annotations

import collections
from typing import IO, Deque, List

# A line longer than this is printed in pieces: one rank must not fill the launcher's memory.
_LINE_BYTES_MAX = 1 << 16
_LAST_LINES = 20


class RankOutput:
    """One stream of one rank. feed() takes raw bytes, close() the last line without an end."""

    def __init__(self, prefix: str, target: IO[bytes]) -> None:
        self._prefix = prefix.encode()
        self._target = target
        self._pending = b""
        self._last: Deque[bytes] = collections.deque(maxlen=_LAST_LINES)

    def feed(self, data: bytes) -> None:
        """Prints the lines that `data` completes."""
        lines = (self._pending + data).split(b"\n")
        self._pending = lines.pop()
        while len(self._pending) > _LINE_BYTES_MAX:
            lines.append(self._pending[:_LINE_BYTES_MAX])
            self._pending = self._pending[_LINE_BYTES_MAX:]
        self._print(lines)

    def close(self) -> None:
        """Prints what is left."""
        if self._pending:
            self._print([self._pending])
            self._pending = b""

    def last_lines(self) -> List[str]:
        """At most the last 20 lines."""
        return [line.decode(errors="replace") for line in self._last]

    def _print(self, lines: List[bytes]) -> None:
        if not lines:
            return
        self._last.extend(lines)
        self._target.write(b"".join(self._prefix + line + b"\n" for line in lines))
        self._target.flush()
