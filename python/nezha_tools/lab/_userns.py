"""Root without being root: a user namespace in which networks may be built.

A holder process keeps the namespace; work on the lab is done by short-lived children that join
it, so the calling process stays what it is, with its threads. Linux lets only a process with one
thread change its user namespace, which a freshly forked child always is.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
from typing import Any, Callable, Dict, NoReturn

from . import _kernel, _state
from ..cli.errors import LabError

def _become(uid: int, gid: int) -> None:
    _kernel.unshare(_kernel.CLONE_NEWUSER | _kernel.CLONE_NEWNS)
    with open("/proc/self/setgroups", "w", encoding="ascii") as file:
        file.write("deny")
    with open("/proc/self/uid_map", "w", encoding="ascii") as file:
        file.write(f"0 {uid} 1")
    with open("/proc/self/gid_map", "w", encoding="ascii") as file:
        file.write(f"0 {gid} 1")
    _kernel.make_mounts_private(slave=False)


def _keep_state_directory() -> None:
    # uid 0 of the namespace must look for the lab's file where its user does.
    os.environ["XDG_RUNTIME_DIR"] = os.path.dirname(_state.directory())


def join(holder: int) -> None:
    """Moves this process, a fresh child, into a holder's user and mount namespaces.

    Keeps the working directory. Raises LabError.
    """
    _keep_state_directory()
    here = os.getcwd()
    try:
        for kind, flag in (("user", _kernel.CLONE_NEWUSER), ("mnt", _kernel.CLONE_NEWNS)):
            fd = os.open(f"/proc/{holder}/ns/{kind}", os.O_RDONLY | os.O_CLOEXEC)
            try:
                _kernel.setns(fd, flag)
            finally:
                os.close(fd)
        os.chdir(here)
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
                _kernel.unshare(_kernel.CLONE_NEWNET)
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
        os.close(read_end)
        _be_holder(build, write_end)
    os.close(write_end)
    with os.fdopen(read_end, "rb") as file:
        message = file.read().decode()
    if message != "ok":
        os.waitpid(child, 0)
        raise LabError(message or "the holder process was killed")
    return child


def _be_holder(build: Callable[[], None], write_end: int) -> NoReturn:
    message = "ok"
    try:
        # A copy of the caller must not run the caller's handlers, nor hear its terminal.
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        os.setsid()
        _keep_state_directory()
        _become(os.getuid(), os.getgid())
        build()
    except BaseException as error:  # everything must reach the caller, who is waiting
        message = str(error) or repr(error)
    try:
        os.write(write_end, message.encode())  # fails when the caller was killed meanwhile
        if message == "ok":
            null = os.open(os.devnull, os.O_RDWR)
            for fd in (0, 1, 2):
                os.dup2(null, fd)
            os.closerange(3, 1 << 16)
            while True:
                signal.pause()
    finally:
        os._exit(1)
