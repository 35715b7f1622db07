"""What this process holds open, in words that can be compared: numbers of inodes are left out."""

from __future__ import annotations

import os
from typing import List

import psutil


def held() -> List[str]:
    """A line for each descriptor, sorted: "anon_inode:[eventfd]", "10.0.0.1:5 > 10.0.0.2:6 LISTEN"."""
    sockets = {each.fd: f"{_address(each.laddr)} > {_address(each.raddr)} {each.status}"
               for each in psutil.Process().net_connections()}
    lines = []
    for number in os.listdir("/proc/self/fd"):
        try:
            target = os.readlink(f"/proc/self/fd/{number}")
        except FileNotFoundError:
            continue  # that of the listing itself
        kind = target.split(":[")[0] if target.startswith(("socket:", "pipe:")) else target
        lines.append(sockets.get(int(number), kind))
    return sorted(lines)


def _address(address: object) -> str:
    return ":".join(map(str, address)) if isinstance(address, tuple) else str(address)
