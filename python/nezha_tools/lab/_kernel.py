"""The few system calls the lab needs that Python 3.9 does not have: namespaces and mounts.

Every function raises OSError with the call and its object in the message. Threads: a network
namespace belongs to a thread, so in_netns() runs its function in a thread of its own and the
caller never leaves the namespace it is in.
"""

from __future__ import annotations

import ctypes
import os
import threading
from typing import Callable, List, Optional, TypeVar

T = TypeVar("T")

CLONE_NEWNS = 0x00020000
CLONE_NEWUSER = 0x10000000
CLONE_NEWNET = 0x40000000
_MS_BIND = 0x1000
_MS_REC = 0x4000
_MS_PRIVATE = 1 << 18
_MS_SLAVE = 1 << 19
_MNT_DETACH = 2

_libc = ctypes.CDLL(None, use_errno=True)


def _call(name: str, what: str, *args: object) -> None:
    if getattr(_libc, name)(*args) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{name}({what}): {os.strerror(number)}")


def setns(fd: int, kind: int) -> None:
    """Moves the calling thread into the namespace behind fd."""
    _call("setns", f"{kind:#x}", fd, kind)


def unshare(flags: int) -> None:
    """Gives the calling thread (process, for a user namespace) fresh namespaces."""
    _call("unshare", f"{flags:#x}", flags)


def _mount(source: str, target: str, kind: Optional[str], flags: int) -> None:
    _call("mount", target, source.encode(), target.encode(),
          kind.encode() if kind else None, ctypes.c_ulong(flags), None)


def bind_mount(source: str, target: str) -> None:
    """Bind mounts one file on another."""
    _mount(source, target, None, _MS_BIND)


def detach_mount(target: str) -> None:
    """Unmounts target, at once for new users and later for those still inside."""
    _call("umount2", target, target.encode(), _MNT_DETACH)


def make_mounts_private(slave: bool) -> None:
    """Stops this mount namespace's changes from reaching others; slave still receives theirs."""
    _mount("none", "/", None, _MS_REC | (_MS_SLAVE if slave else _MS_PRIVATE))


def mount_own_sysfs() -> None:
    """Shows this thread's network namespace in /sys, in a mount namespace of its own."""
    unshare(CLONE_NEWNS)
    make_mounts_private(slave=True)
    try:
        detach_mount("/sys")
    except OSError:
        pass  # nothing mounted there: the new one simply goes on top
    _mount("nezha-lab", "/sys", "sysfs", 0)


def in_thread(function: Callable[[], T]) -> T:
    """Result (or exception) of function run in a fresh thread."""
    results: List[T] = []
    errors: List[BaseException] = []

    def run() -> None:
        try:
            results.append(function())
        except BaseException as error:  # handed to the caller below
            errors.append(error)

    thread = threading.Thread(target=run, name="nezha-lab-netns")
    thread.start()
    thread.join()
    if errors:
        raise errors[0]
    return results[0]


def in_netns(path: str, function: Callable[[], T]) -> T:
    """Result (or exception) of function run inside the network namespace at path."""

    def run() -> T:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            setns(fd, CLONE_NEWNET)
        finally:
            os.close(fd)
        return function()

    return in_thread(run)


def create_netns(path: str) -> None:
    """Creates a network namespace kept alive by a bind mount on path, which must not exist."""
    os.makedirs(os.path.dirname(path), mode=0o755, exist_ok=True)
    os.close(os.open(path, os.O_RDONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o444))

    def run() -> None:
        unshare(CLONE_NEWNET)
        bind_mount("/proc/thread-self/ns/net", path)

    try:
        in_thread(run)
    except OSError:
        os.unlink(path)
        raise


def write_sysctl(name: str, value: str) -> None:
    """Sets a sysctl of the calling thread's network namespace (dots become slashes)."""
    with open("/proc/sys/" + name.replace(".", "/"), "w", encoding="ascii") as file:
        file.write(value)


def read_sysctl(name: str) -> str:
    """Value of a sysctl in the calling thread's network namespace."""
    with open("/proc/sys/" + name.replace(".", "/"), encoding="ascii") as file:
        return file.read().strip()
