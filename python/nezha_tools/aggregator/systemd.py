"""What systemd wants to hear from a service of Type=notify. Nothing happens where nobody listens."""

from __future__ import annotations

import contextlib
import os
import socket
from typing import Optional


def notify(state: str) -> None:
    """Sends a state such as "READY=1"."""
    path = os.environ.get("NOTIFY_SOCKET", "")
    if not path:
        return
    # A name that begins with @ is of Linux's abstract namespace, which has a zero byte there.
    target = "\0" + path[1:] if path.startswith("@") else path
    with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as link:
        link.setblocking(False)  # a full queue must not stop the node
        link.connect(target)
        link.sendall(state.encode())


def watchdog_seconds() -> Optional[float]:
    """How often it wants a sign of life (WatchdogSec=), half of what it waits for; None: never."""
    text = os.environ.get("WATCHDOG_USEC", "")
    if not text.isdigit() or os.environ.get("WATCHDOG_PID", str(os.getpid())) != str(os.getpid()):
        return None
    return int(text) / 2e6
