"""What several ranks say alike on standard error, such as why a job does not start: printed once, and
then how many others said it.

Alike are tracebacks of Python, and warnings and errors of Nezha's log, with equal text, or with a
difference only where each names its own rank ("rank 5"). Everything else is printed as it comes, and so
is what one rank says again.
"""

from __future__ import annotations

import math
import re
import time
from dataclasses import dataclass, field
from typing import IO, Callable, List

from .ranks_text import ranks_text
from .rank_output import printed

_TRACEBACK = b"Traceback (most recent call last):"
# Lines between the tracebacks of an exception and of its cause.
_BETWEEN = (b"", b"During handling of the above exception, another exception occurred:",
            b"The above exception was the direct cause of the following exception:")
_MARK = re.compile(rb"^\[rank\d+\]: ?")  # torch's
_LOG_HEAD = re.compile(rb"\d{4}-\d\d-\d\dT[\d:.]+Z \S+ (?:\[rank \d+\] )?(?=(?:warn|error) )")
_NUMBERS = re.compile(rb"(\d+)")
_WINDOW_S = 10.0  # after which the same words are news again
_SAID_MAX = 100  # texts that are compared with
_BLOCK_LINES_MAX = 1000


@dataclass
class _Said:
    rank: int
    parts: List[bytes]  # the text between numbers, and the numbers
    last_line: bytes
    until: float
    others: List[int] = field(default_factory=list)

    def is_same(self, rank: int, parts: List[bytes]) -> bool:
        own = (str(self.rank).encode(), str(rank).encode())
        return len(parts) == len(self.parts) and all(
            one == other or ((one, other) == own and before.endswith((b"rank ", b"rank")))
            for before, one, other in zip([b"", *self.parts], self.parts, parts))


class Alike:
    """Prints standard error of all ranks on `target`. Somebody calls tell() when next() is over."""

    def __init__(self, target: IO[bytes], ranks: int,
                 clock: Callable[[], float] = time.monotonic) -> None:
        self._target = target
        self._width = len(str(ranks - 1))
        self._clock = clock
        self._said: List[_Said] = []
        self._ranks: List[_RankLines] = []

    def lines_of(self, rank: int) -> _RankLines:
        """Takes the lines of one rank."""
        self._ranks.append(_RankLines(self, rank, f"[{rank:>{self._width}}] ", self._target))
        return self._ranks[-1]

    def is_news(self, rank: int, text: List[bytes]) -> bool:
        """Whether no other rank has just said the same; if one has, this rank is counted."""
        parts = _NUMBERS.split(b"\n".join(text))
        for said in self._said:
            if said.is_same(rank, parts):
                if rank == said.rank or rank in said.others:
                    return True
                said.others.append(rank)
                return False
        if len(self._said) < _SAID_MAX:
            self._said.append(_Said(rank, parts, text[-1], self._clock() + _WINDOW_S))
        return True

    def next(self) -> float:
        """When there is something to tell."""
        return min((said.until for said in self._said), default=math.inf)

    def tell(self) -> None:
        """Says how many others said what was printed a while ago."""
        self._tell_until(self._clock())

    def close(self) -> None:
        """Prints what is left."""
        for rank in self._ranks:
            rank.close()
        self._tell_until(math.inf)

    def _tell_until(self, now: float) -> None:
        over = [said for said in self._said if said.until <= now]
        self._said = [said for said in self._said if said.until > now]
        for said in over:
            if said.others:
                count = f"{len(said.others)} other{'s' if len(said.others) > 1 else ''}"
                self._target.write(f"and {count}, {ranks_text(said.others)}: ".encode() + said.last_line +
                                   b"\n")
                self._target.flush()


class _RankLines:
    """The lines of one rank: Lines of rank_output.py."""

    def __init__(self, alike: Alike, rank: int, prefix: str, target: IO[bytes]) -> None:
        self._alike = alike
        self._rank = rank
        self._print = printed(prefix, target)
        self._block: List[bytes] = []  # a traceback that is not whole yet
        self._between: List[bytes] = []  # after a text that was not printed
        self._was_printed = True

    def __call__(self, lines: List[bytes]) -> None:
        ready: List[bytes] = []
        for line in lines:
            ready += self._next(line)
        if ready:
            self._print(ready)

    def close(self) -> None:
        """Prints a traceback that did not end."""
        if self._block:
            self._print(self._block)
            self._block = []

    def _next(self, line: bytes) -> List[bytes]:
        """What can be printed now."""
        plain = _MARK.sub(b"", line)
        head = _LOG_HEAD.match(line)
        if self._block:
            self._block.append(line)
            is_whole = not plain.startswith(b" ") or len(self._block) == _BLOCK_LINES_MAX
            return self._whole(self._block, self._block) if is_whole else []
        if plain == _TRACEBACK:
            self._block = [line]
            return []
        if head is not None:
            return self._whole([line], [line[head.end():]])
        if plain in _BETWEEN and not self._was_printed:
            self._between.append(line)
            return []
        before, self._between, self._was_printed = self._between, [], True
        return [*before, line]

    def _whole(self, shown: List[bytes], text: List[bytes]) -> List[bytes]:
        before, self._between, self._block = self._between, [], []
        self._was_printed = self._alike.is_news(self._rank, text)
        return [*before, *shown] if self._was_printed else []
