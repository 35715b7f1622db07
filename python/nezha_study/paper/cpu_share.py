"""A limit on the processor time of what this process starts: a control group of the kernel's.

Both versions of control groups can be used. The group is made at the root of the hierarchy that this
process sees, which needs root.
"""

from __future__ import annotations

import os
import time
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Iterator, List, Optional, Tuple

from nezha.files import explained
from nezha_tools.cli.errors import BenchError

Limits = List[Tuple[str, str]]  # (file, content)
_PERIOD_US = 20_000  # short: a rank that has used up its part stands still until the next
_QUOTA_MIN_US = 1000  # of the kernel
_PATIENCE_S = 5.0  # for the last process to leave


@dataclass(frozen=True)
class Hierarchy:
    """Where control groups limit processor time: the mount point, and the kernel's version of them."""

    root: Path
    version: int

    def limits(self, processors: float) -> Limits:
        """(file, content) for so many processors."""
        quota = max(_QUOTA_MIN_US, round(processors * _PERIOD_US))
        if self.version == 2:
            return [("cpu.max", f"{quota} {_PERIOD_US}")]
        return [("cpu.cfs_period_us", str(_PERIOD_US)), ("cpu.cfs_quota_us", str(quota))]

    def home(self, memberships: str) -> Path:
        """The group of a process, out of its /proc/PID/cgroup."""
        for line in memberships.splitlines():
            _, controllers, path = line.split(":", 2)
            if controllers == "" if self.version == 2 else "cpu" in controllers.split(","):
                return self.root / path.lstrip("/")
        return self.root


def find(mounts: str) -> Optional[Hierarchy]:
    """The hierarchy that limits processor time, out of /proc/mounts; None where there is none."""
    for line in mounts.splitlines():
        _, where, kind, options = line.split()[:4]
        if kind == "cgroup" and "cpu" in options.split(","):
            return Hierarchy(Path(where), 1)
        if kind == "cgroup2" and "cpu" in _words(Path(where) / "cgroup.subtree_control"):
            return Hierarchy(Path(where), 2)
    return None


def _words(path: Path) -> List[str]:
    try:
        return path.read_text(encoding="ascii").split()
    except OSError:
        return []


def _here() -> Optional[Hierarchy]:
    return find(Path("/proc/mounts").read_text(encoding="utf-8"))


def refusal() -> Optional[str]:
    """Why processor time cannot be limited here; None where it can."""
    here = _here()
    if here is None:
        return "this kernel has no control groups that limit processor time"
    group = here.root / f"nezha-try-{os.getpid()}"
    try:
        group.mkdir()
        try:
            _write(group, here.limits(1))
        finally:
            group.rmdir()
    except OSError as error:
        return f"no control group can be made in {here.root}: {explained(error)}"
    return None


class Group:
    """A control group of this process and of those that it starts meanwhile, which must end before it.

    A context manager, without a limit at first. Every method raises BenchError.
    """

    def __init__(self) -> None:
        here = _here()
        if here is None:
            raise BenchError(f"processor time cannot be limited: {refusal()}")
        self._hierarchy = here
        self._home = here.home(Path("/proc/self/cgroup").read_text(encoding="utf-8"))
        self._path = here.root / f"nezha-study-{os.getpid()}"

    def __enter__(self) -> "Group":
        with self._explaining():
            self._path.mkdir()
            try:
                _move(self._path)
            except OSError:
                self._path.rmdir()
                raise
        return self

    def __exit__(self, *_: object) -> None:
        with self._explaining():
            _move(self._home)
            _remove(self._path)

    def limit(self, processors: float) -> None:
        """From now on all of them together have the time of so many processors."""
        with self._explaining():
            _write(self._path, self._hierarchy.limits(processors))

    @contextmanager
    def _explaining(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise BenchError(f"control group {self._path}: {explained(error)}") from error


def _write(group: Path, limits: Limits) -> None:
    for name, content in limits:
        (group / name).write_text(content, encoding="ascii")


def _move(group: Path) -> None:
    (group / "cgroup.procs").write_text(str(os.getpid()), encoding="ascii")


def _remove(group: Path) -> None:
    """Removes a group as soon as the processes in it have ended."""
    limit = time.monotonic() + _PATIENCE_S
    while True:
        try:
            group.rmdir()
            return
        except OSError:
            if time.monotonic() > limit:
                raise
            time.sleep(0.05)
