"""What ranks print: whole lines for whoever takes them, and the last ones kept for the report."""

from __future__ import annotations

import collections
from typing import IO, Callable, Deque, List

Lines = Callable[[List[bytes]], None]  # takes lines without their ends

# A longer line is taken in pieces: one rank must not fill the launcher's memory.
PRINTED_BYTES_MAX = 1 << 16
_LAST_LINES = 20


def printed(prefix: str, target: IO[bytes]) -> Lines:
    """Prints each line behind `prefix`."""
    def take(lines: List[bytes]) -> None:
        target.write(b"".join(prefix.encode() + line + b"\n" for line in lines))
        target.flush()

    return take


class RankOutput:
    """One stream of one rank. feed() takes raw bytes, close() the last line without an end."""

    def __init__(self, take: Lines, line_bytes_max: int = PRINTED_BYTES_MAX) -> None:
        self._take = take
        self._line_bytes_max = line_bytes_max
        self._pending = b""
        self._last: Deque[bytes] = collections.deque(maxlen=_LAST_LINES)

    def feed(self, data: bytes) -> None:
        """Hands on the lines that `data` completes."""
        lines = (self._pending + data).split(b"\n")
        self._pending = lines.pop()
        while len(self._pending) > self._line_bytes_max:
            lines.append(self._pending[:self._line_bytes_max])
            self._pending = self._pending[self._line_bytes_max:]
        self._hand_on(lines)

    def close(self) -> None:
        """Hands on what is left."""
        if self._pending:
            self._hand_on([self._pending])
            self._pending = b""

    def last_lines(self) -> List[str]:
        """At most the last 20 lines."""
        return [line.decode(errors="replace") for line in self._last]

    def _hand_on(self, lines: List[bytes]) -> None:
        if lines:
            self._last.extend(lines)
            self._take(lines)
