"""Tears a lab down when the process that owns it is gone, however it went.

Run as `python -m nezha.lab.guardian NAME`; the parent is the owner. Deaf to the terminal's
signals: it outlives the owner by as long as the teardown takes. The owner ends it after an
orderly down().
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import sys

from . import state
from .errors import LabError
from .teardown import tear_down


def start(name: str) -> "subprocess.Popen[bytes]":
    """A guardian for the calling process."""
    package_root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    path = os.pathsep.join(p for p in (package_root, os.environ.get("PYTHONPATH")) if p)
    return subprocess.Popen(
        [sys.executable, "-m", "nezha.lab.guardian", name, str(os.getpid())],
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        start_new_session=True, env={**os.environ, "PYTHONPATH": path}, cwd="/")


def _end(name: str, owner: int) -> None:
    # The name may belong to another lab by now, if the owner died between its down() and its exit.
    with contextlib.suppress(LabError):
        if state.load(name).owner != owner:
            return
    tear_down(name)


def watch(name: str, owner: int) -> None:
    """Returns after the owner's death and the lab's teardown."""
    for number in (signal.SIGINT, signal.SIGHUP, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    try:
        fd = os.pidfd_open(owner)
    except ProcessLookupError:
        _end(name, owner)
        return
    # A pid may have been given to somebody else before it could be opened: then we are orphans.
    if os.getppid() == owner:
        select.select([fd], [], [])
    _end(name, owner)


if __name__ == "__main__":
    watch(sys.argv[1], int(sys.argv[2]))
