"""Root without being root: a user namespace in which this process may build networks.

enter() moves the calling process for good; it stays the same process with the same files, and
sees itself as uid 0. Linux refuses it to a process with more than one thread.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import time
from typing import Any, Callable, Dict

from . import kernel, state
from .errors import LabError

_THREAD_EXIT_S = 0.5


def single_threaded() -> bool:
    """Whether this process has one thread. Waits a little: one that Python has joined may still
    be on its way out of the kernel."""
    deadline = time.monotonic() + _THREAD_EXIT_S
    while len(os.listdir("/proc/self/task")) > 1:
        if time.monotonic() > deadline:
            return False
        time.sleep(0.001)
    return True


def _become(uid: int, gid: int) -> None:
    single_threaded()  # if not, the call below says so
    kernel.unshare(kernel.CLONE_NEWUSER | kernel.CLONE_NEWNS)
    with open("/proc/self/setgroups", "w", encoding="ascii") as file:
        file.write("deny")
    with open("/proc/self/uid_map", "w", encoding="ascii") as file:
        file.write(f"0 {uid} 1")
    with open("/proc/self/gid_map", "w", encoding="ascii") as file:
        file.write(f"0 {gid} 1")
    kernel.make_mounts_private(slave=False)


def enter() -> None:
    """Makes this process root of a user namespace of its own. Raises LabError when refused."""
    os.environ["XDG_RUNTIME_DIR"] = os.path.dirname(state.directory())
    try:
        _become(os.getuid(), os.getgid())
    except OSError as error:
        raise LabError(
            f"no user namespace for this process: {error}. It must be allowed on this host and "
            "entered before the process starts threads (import numpy and torch later)"
        ) from error


def join(holder: int) -> None:
    """Joins the user and mount namespaces of a lasting lab's holder. Raises LabError."""
    os.environ["XDG_RUNTIME_DIR"] = os.path.dirname(state.directory())
    single_threaded()  # if not, the call below says so
    try:
        for kind, flag in (("user", kernel.CLONE_NEWUSER), ("mnt", kernel.CLONE_NEWNS)):
            if os.readlink(f"/proc/{holder}/ns/{kind}") == os.readlink(f"/proc/self/ns/{kind}"):
                continue
            fd = os.open(f"/proc/{holder}/ns/{kind}", os.O_RDONLY | os.O_CLOEXEC)
            try:
                kernel.setns(fd, flag)
            finally:
                os.close(fd)
    except OSError as error:
        raise LabError(f"the lab's holder process {holder} cannot be joined: {error}") from error


def call_inside(holder: int, function: Callable[[], Any]) -> Any:
    """JSON-ready result of function run in a child that has joined a lasting lab's holder.

    The caller stays where it is, so it can look at one lab after the other. Raises LabError.
    """
    read_end, write_end = os.pipe()
    child = os.fork()
    if child == 0:
        answer: Dict[str, Any] = {}
        try:
            join(holder)
            answer = {"result": function()}
        except BaseException as error:  # everything must reach the caller, who is waiting
            answer = {"error": str(error) or repr(error)}
        with os.fdopen(write_end, "w") as file:
            json.dump(answer, file)
        os._exit(0)
    os.close(write_end)
    with os.fdopen(read_end) as file:
        text = file.read()
    os.waitpid(child, 0)
    answer = json.loads(text or '{"error": "the child process was killed"}')
    if "error" in answer:
        raise LabError(answer["error"])
    return answer["result"]


def probe() -> str:
    """Empty when a child could enter a user namespace and create a network in it; else why not."""
    read_end, write_end = os.pipe()
    child = os.fork()
    if child == 0:
        reason = b"it was killed"
        with contextlib.suppress(BaseException):
            try:
                _become(os.getuid(), os.getgid())
                kernel.unshare(kernel.CLONE_NEWNET)
                reason = b""
            except OSError as error:
                reason = str(error).encode()
            os.write(write_end, reason)
        os._exit(0)
    os.close(write_end)
    with os.fdopen(read_end, "rb") as file:
        reason = file.read()
    os.waitpid(child, 0)
    return reason.decode()


def hold(build: Callable[[], None]) -> int:
    """Pid of a new background process that has run build() in a user namespace and now waits.

    The caller stays outside. Raises LabError with build()'s message when that failed.
    """
    read_end, write_end = os.pipe()
    child = os.fork()
    if child == 0:
        message = b"the holder process was killed"
        try:
            os.close(read_end)
            os.setsid()
            enter()
            build()
            message = b""
        except BaseException as error:  # everything must reach the caller, who is waiting
            message = str(error).encode() or repr(error).encode()
        os.write(write_end, message or b"ok")
        os.close(write_end)
        if message:
            os._exit(1)
        null = os.open(os.devnull, os.O_RDWR)
        for fd in (0, 1, 2):
            os.dup2(null, fd)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        while True:
            signal.pause()
    os.close(write_end)
    with os.fdopen(read_end, "rb") as file:
        message = file.read().decode()
    if message != "ok":
        os.waitpid(child, 0)
        raise LabError(message or "the holder process was killed")
    return child
