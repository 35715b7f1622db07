"""Flight dumps as data: one file a rank, read with suspicion."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Dict, Iterable, List, Optional, Sequence, Tuple

from nezha.files import read_text

FORMAT = 1
_ANY_TAG = 2**32 - 1  # of a receive that takes any


class DumpError(Exception):
    """A file that is no flight dump; the text names the file and what is wrong with it."""


@dataclass(frozen=True)
class Operation:
    """One call of a rank. Ranks are those of the communicator; times are microseconds since 1970."""

    comm: int
    op_seq: Optional[int]  # None: a message
    collective: str
    dtype: str
    op: Optional[str]
    root: Optional[int]
    count: int
    algorithm: Optional[str] = None
    plan: Optional[int] = None
    direction: Optional[str] = None  # of a message: "send" or "receive"
    tag: Optional[int] = None
    peer: Optional[int] = None
    submitted_us: int = 0
    started_us: Optional[int] = None
    finished_us: Optional[int] = None
    state: str = "done"
    waits_for: Tuple[int, ...] = ()
    code: Optional[str] = None
    error: Optional[str] = None

    @property
    def is_stuck(self) -> bool:
        """Whether it never came to its end."""
        return self.state != "done"

    def describe(self) -> str:
        """ "all_reduce of 10 x float32 (sum)", or the like for what the call was."""
        what = self.collective if self.direction is None else self.direction
        text = f"{what} of {self.count} x {self.dtype}" if what != "barrier" else what
        extras = [self.op] if self.op is not None else []
        extras += [f"root {self.root}"] if self.root is not None else []
        if self.direction is not None:
            side = "to" if self.direction == "send" else "from"
            extras.append(f"{side} {'any rank' if self.peer is None else f'rank {self.peer}'}")
            extras.append("any tag" if self.tag == _ANY_TAG else f"tag {self.tag}")
        return f"{text} ({', '.join(extras)})" if extras else text


@dataclass(frozen=True)
class Member:
    """A communicator as one of its ranks sees it."""

    comm: int
    rank: int
    members: Tuple[int, ...]  # global ranks in the order of the communicator's; empty: not known yet
    next_op_seq: int
    failed: bool


@dataclass(frozen=True)
class Failure:
    """The first error of a communicator on one rank."""

    at_us: int
    comm: int
    code: str
    peer: Optional[int]  # rank in the communicator
    text: str


@dataclass(frozen=True)
class RailEvent:
    """What happened to one connection. `peer` is a global rank."""

    at_us: int
    event: str
    peer: int
    rail: int
    lane: int
    reason: str


@dataclass(frozen=True)
class Dump:
    """What one rank did last."""

    rank: int
    world_size: int
    job: str = ""
    host: str = ""
    pid: int = 0
    reason: str = "call"
    written_us: int = 0
    rails: Tuple[str, ...] = ()
    communicators: Tuple[Member, ...] = ()
    operations: Tuple[Operation, ...] = ()
    failures: Tuple[Failure, ...] = ()
    rail_events: Tuple[RailEvent, ...] = ()
    path: str = field(default="", compare=False)


_MISSING = object()


class _Fields:
    """An object of the file whose values are asked for by type."""

    def __init__(self, value: Any, where: str) -> None:
        if not isinstance(value, dict):
            raise DumpError(f"{where} is no object")
        self._value, self._where = value, where

    def get(self, name: str, kinds: Tuple[type, ...], default: Any = _MISSING) -> Any:
        """The value, which must be of one of `kinds`; `default` where it is null or not there."""
        value = self._value.get(name)
        if value is None and default is not _MISSING:
            return default
        if not isinstance(value, kinds) or isinstance(value, bool) and bool not in kinds:
            raise DumpError(f"{self._where} has no usable {name!r}")
        return value

    def number(self, name: str, default: Any = _MISSING) -> Any:
        return self.get(name, (int,), default)

    def text(self, name: str, default: Any = _MISSING) -> Any:
        return self.get(name, (str,), default)

    def numbers(self, name: str) -> Tuple[int, ...]:
        values = self.get(name, (list,))
        if not all(isinstance(each, int) for each in values):
            raise DumpError(f"{self._where} has no usable {name!r}")
        return tuple(values)

    def objects(self, name: str) -> List["_Fields"]:
        values = self.get(name, (list,))
        return [_Fields(each, f"{self._where}: {name}[{i}]") for i, each in enumerate(values)]


def _operation(at: _Fields) -> Operation:
    return Operation(
        comm=at.number("comm"), op_seq=at.number("op_seq", None),
        collective=at.text("collective"), dtype=at.text("dtype"), op=at.text("op", None),
        root=at.number("root", None), count=at.number("count"),
        algorithm=at.text("algorithm", None), plan=at.number("plan", None),
        direction=at.text("direction", None), tag=at.number("tag", None),
        peer=at.number("peer", None), submitted_us=at.number("submitted_us"),
        started_us=at.number("started_us", None), finished_us=at.number("finished_us", None),
        state=at.text("state"), waits_for=at.numbers("waits_for"), code=at.text("code", None),
        error=at.text("error", None))


def parse(content: Any, path: str = "") -> Dump:
    """The dump that `content`, a parsed JSON text, is. Raises DumpError."""
    at = _Fields(content, path or "the dump")
    if at.number("nezha_flight", None) != FORMAT:
        raise DumpError(f"{path or 'this'} is no flight dump of format {FORMAT}")
    rank, world_size = at.number("rank"), at.number("world_size")
    if not 0 <= rank < world_size:
        raise DumpError(f"{path or 'the dump'} is of rank {rank} of {world_size}")
    return Dump(
        rank=rank, world_size=world_size, job=at.text("job"), host=at.text("host"),
        pid=at.number("pid"), reason=at.text("reason"), written_us=at.number("written_us"),
        rails=tuple(str(each) for each in at.get("rails", (list,))),
        communicators=tuple(
            Member(each.number("comm"), each.number("rank"), each.numbers("members"),
                   each.number("next_op_seq"), each.get("failed", (bool,)))
            for each in at.objects("communicators")),
        operations=tuple(_operation(each) for each in at.objects("operations")),
        failures=tuple(
            Failure(each.number("at_us"), each.number("comm"), each.text("code"),
                    each.number("peer", None), each.text("text"))
            for each in at.objects("failures")),
        rail_events=tuple(
            RailEvent(each.number("at_us"), each.text("event"), each.number("peer"),
                      each.number("rail"), each.number("lane"), each.text("reason"))
            for each in at.objects("rail_events")),
        path=path)


def _files_of(path: Path) -> Iterable[Path]:
    if not path.is_dir():
        return [path]
    found = sorted(path.glob("*.json"))
    if not found:
        raise DumpError(f"{path} has no .json files")
    return found


def read_files(paths: Sequence[str]) -> Tuple[List[Dump], List[str]]:
    """The dumps of files, and of the .json files of folders; and a sentence for each unusable file."""
    dumps, problems = [], []
    for given in paths:
        try:
            for path in _files_of(Path(given)):
                try:
                    dumps.append(parse(json.loads(read_text(path)), str(path)))
                except (OSError, ValueError, RecursionError) as error:
                    problems.append(f"{path}: {error}")
                except DumpError as error:
                    problems.append(str(error))
        except DumpError as error:
            problems.append(str(error))
    return dumps, problems


def choose_run(dumps: Sequence[Dump]) -> Tuple[List[Dump], List[str]]:
    """The dumps of the newest run, one a rank, by rank; and a sentence for each one left out."""
    if not dumps:
        return [], []
    newest = max(dumps, key=lambda dump: dump.written_us)
    chosen: Dict[int, Dump] = {}
    left_out = []
    for dump in sorted(dumps, key=lambda each: each.written_us):
        if (dump.job, dump.world_size) != (newest.job, newest.world_size):
            left_out.append(f"{dump.path} is of another run (job {dump.job}); it was left out")
            continue
        if dump.rank in chosen:
            left_out.append(f"{chosen[dump.rank].path} is an older dump of rank {dump.rank}; it was "
                            "left out")
        chosen[dump.rank] = dump
    return [chosen[rank] for rank in sorted(chosen)], left_out
