"""The end of a lab: tear_down() removes its processes, its namespaces and its file, and a guardian calls
it when the process that owns the lab has ended without doing so.

tear_down() needs neither pyroute2 nor the Lab class. It works on whatever is left of a lab, any number of
times, from any process of the same user. The guardian is a process of its own, `python -m
nezha_tools.lab._lifetime NAME OWNER`, and a child of the owner. It ignores the signals of the terminal,
because it has to outlive the owner. The owner ends it after an orderly down().
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import sys
import time
from typing import List, Set, Tuple

from . import _aggregator_processes, _kernel, _state
from ..cli.errors import LabError

_GRACE_S = 1.0


def _identity(path: str) -> Tuple[int, int]:
    info = os.stat(path)
    return info.st_dev, info.st_ino


def processes_inside(paths: List[str]) -> List[int]:
    """Pids (never this one) whose network namespace is one of those mounted at paths."""
    wanted: Set[Tuple[int, int]] = set()
    for path in paths:
        with contextlib.suppress(OSError):
            wanted.add(_identity(path))
    wanted.discard(_identity("/proc/self/ns/net"))
    found = []
    for entry in os.listdir("/proc"):
        if entry.isdigit() and int(entry) != os.getpid():
            with contextlib.suppress(OSError):  # it has ended, or belongs to somebody else
                if _identity(f"/proc/{entry}/ns/net") in wanted:
                    found.append(int(entry))
    return found


def _processes_named(name: str) -> List[int]:
    """Pids (never this one) that carry the lab's name in the environment they started with.

    For labs whose namespaces cannot be seen from here: in a user namespace, or none at all.
    """
    mark = f"NEZHA_LAB={name}".encode()
    found = []
    for entry in os.listdir("/proc"):
        if entry.isdigit() and int(entry) != os.getpid():
            with contextlib.suppress(OSError):
                with open(f"/proc/{entry}/environ", "rb") as file:
                    if mark in file.read().split(b"\0"):
                        found.append(int(entry))
    return found


def _end_processes(lab: _state.LabState) -> None:
    """Asks every process of the lab to end, then makes it."""
    root = lab.mode == "root"
    deadline = time.monotonic() + _GRACE_S
    number = signal.SIGTERM
    # A process that is just being started has no environment yet: nobody must be there twice.
    absent = 0
    while True:
        inside = (processes_inside(lab.namespaces()) if root
                  else _processes_named(lab.name))
        absent = 0 if inside else absent + 1
        if absent == 2:
            return
        if time.monotonic() > deadline:
            number = signal.SIGKILL
        for pid in inside:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)
        if time.monotonic() > deadline + _GRACE_S:
            return  # unkillable (stuck in the kernel): its namespace goes when it does
        time.sleep(0.01)


def _remove_namespace(path: str) -> None:
    with contextlib.suppress(OSError):
        _kernel.detach_mount(path)
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)


def tear_down(name: str) -> bool:
    """Removes all of a lab. False when there was none."""
    try:
        lab = _state.load(name)
    except LabError:
        if name not in _state.names():
            return False
        _state.remove(name)  # unreadable: nothing in it to go by
        return True
    _end_processes(lab)
    for path in lab.namespaces():
        _remove_namespace(path)
    if lab.mode == "userns":
        with contextlib.suppress(OSError):
            os.rmdir(os.path.dirname(lab.switch))
    if lab.holder:
        with contextlib.suppress(ProcessLookupError):
            os.kill(lab.holder, signal.SIGTERM)
    _aggregator_processes.forget(lab)
    _state.remove(name)
    return True


def start_guardian(name: str) -> "subprocess.Popen[bytes]":
    """A guardian for the calling process."""
    package_root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    path = os.pathsep.join(p for p in (package_root, os.environ.get("PYTHONPATH")) if p)
    return subprocess.Popen(
        [sys.executable, "-m", "nezha_tools.lab._lifetime", name, str(os.getpid())],
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        start_new_session=True, env={**os.environ, "PYTHONPATH": path}, cwd="/")


def _end(name: str, owner: int) -> None:
    # The name may belong to another lab by now, if the owner died between its down() and its exit.
    with contextlib.suppress(LabError):
        if _state.load(name).owner != owner:
            return
    tear_down(name)


def _guard(name: str, owner: int) -> None:
    """Returns when the owner has ended and the lab has been torn down."""
    for number in (signal.SIGINT, signal.SIGHUP, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    try:
        fd = os.pidfd_open(owner)
    except ProcessLookupError:
        _end(name, owner)
        return
    # The pid may name another process by now. Then this process has another parent, too.
    if os.getppid() == owner:
        select.select([fd], [], [])
    _end(name, owner)


if __name__ == "__main__":
    _guard(sys.argv[1], int(sys.argv[2]))
