"""What a run cost: processor time of this process, and bytes on this process's interfaces."""

from __future__ import annotations

import resource
from pathlib import Path
from typing import Dict, Optional, Union


def cpu_seconds() -> float:
    """User and system seconds of all threads of this process so far."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def transmitted_bytes(source: Union[str, Path] = "/proc/self/net/dev") -> Dict[str, int]:
    """Bytes each interface of this process's network namespace has sent.

    Read from /proc, not /sys: a process moved into a namespace still sees the /sys of the host.
    Empty where the file cannot be read.
    """
    try:
        lines = Path(source).read_text(encoding="ascii").splitlines()
    except OSError:
        return {}
    counters: Dict[str, int] = {}
    for line in lines:
        device, colon, fields = line.partition(":")
        columns = fields.split()
        if colon and len(columns) >= 9 and columns[8].isdigit():
            counters[device.strip()] = int(columns[8])
    return counters


def line_rate(device: str) -> Optional[float]:
    """Bytes per second of a physical port; None for virtual devices, whose speed is a fiction."""
    base = Path("/sys/class/net") / device
    if not (base / "device").exists():
        return None
    try:
        megabits = int((base / "speed").read_text(encoding="ascii"))
    except (OSError, ValueError):
        return None
    return megabits * 1e6 / 8 if megabits > 0 else None
