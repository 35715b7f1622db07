"""Ends a lab: its processes, its namespaces, its file. Needs neither pyroute2 nor the Lab class.

Works on whatever is left of a lab, any number of times, from any process of the same user; the
guardian runs it when the owner was killed.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from typing import List, Set, Tuple

from . import daemons, kernel, state
from .errors import LabError

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


def _end_processes(lab: state.LabState) -> None:
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
        kernel.detach_mount(path)
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)


def tear_down(name: str) -> bool:
    """Removes all of a lab. False when there was none."""
    try:
        lab = state.load(name)
    except LabError:
        if name not in state.names():
            return False
        state.remove(name)  # unreadable: nothing in it to go by
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
    daemons.forget(lab)
    state.remove(name)
    return True
