"""Counters of the processor, by perf_event_open: reads of caches and memory by this process's threads.

A virtual machine often has none, and many processors lack some. The numbers are those of
linux/perf_event.h; no library of Python has them.
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import struct
from dataclasses import dataclass
from typing import Dict, Optional, Sequence

_CALL = {"x86_64": 298, "aarch64": 241}.get(platform.machine())
_ATTR_BYTES = 64  # of the first version of struct perf_event_attr
_INHERIT, _EXCLUDE_KERNEL, _EXCLUDE_HYPERVISOR = 1 << 1, 1 << 5, 1 << 6
_TIMES = 0b11  # read_format: time that the event was wanted, and time that it was counted
_CACHE = 3  # PERF_TYPE_HW_CACHE
_L1, _LAST, _NODE = 0, 2, 6  # of whose config this is the lowest byte; reads are operation 0
_MISS = 1 << 16

_libc = ctypes.CDLL(None, use_errno=True)


@dataclass(frozen=True)
class Event:
    """One thing that is counted; kind and config as the kernel has them."""

    name: str
    kind: int
    config: int


EVENTS = (Event("L1 reads", _CACHE, _L1), Event("L1 misses", _CACHE, _L1 | _MISS),
          Event("last level reads", _CACHE, _LAST), Event("last level misses", _CACHE, _LAST | _MISS),
          Event("memory reads", _CACHE, _NODE), Event("memory misses", _CACHE, _NODE | _MISS))


class Counter:
    """Counts one event of this thread and of threads that it starts later. Owns a descriptor."""

    def __init__(self, event: Event) -> None:
        """Raises OSError where the machine does not count it."""
        try:
            self._fd = _open(event, _EXCLUDE_HYPERVISOR)
        except OSError as error:
            if error.errno not in (errno.EACCES, errno.EPERM):
                raise
            self._fd = _open(event, _EXCLUDE_HYPERVISOR | _EXCLUDE_KERNEL)  # that needs no right

    def read(self) -> float:
        """So far; scaled up where the processor counted it for a part of the time only."""
        value, wanted, counted = struct.unpack("QQQ", os.read(self._fd, 24))
        return value * wanted / counted if counted else 0.0

    def close(self) -> None:
        """Ends counting."""
        os.close(self._fd)


def _open(event: Event, exclude: int) -> int:
    if _CALL is None:
        raise OSError(errno.ENOSYS, f"no system call is known for {platform.machine()}")
    attributes = struct.pack("IIQQQQQIIQ", event.kind, _ATTR_BYTES, event.config, 0, 0, _TIMES,
                             _INHERIT | exclude, 0, 0, 0)
    this_thread, every_processor, no_group = 0, -1, -1
    fd = int(_libc.syscall(_CALL, attributes, this_thread, every_processor, no_group, 0))
    if fd < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    os.set_inheritable(fd, False)
    return fd


def opened(events: Sequence[Event]) -> Dict[str, Counter]:
    """By name; those that this machine counts."""
    found: Dict[str, Counter] = {}
    for event in events:
        try:
            found[event.name] = Counter(event)
        except OSError:
            continue
    return found


def refusals(events: Optional[Sequence[Event]] = None) -> Dict[str, str]:
    """By the name of each event that this machine does not count, why."""
    found: Dict[str, str] = {}
    for event in EVENTS if events is None else events:
        try:
            Counter(event).close()
        except OSError as error:
            found[event.name] = os.strerror(error.errno or errno.EIO)
    return found
