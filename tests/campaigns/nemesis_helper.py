"""Destroys TCP connections of one node, at the moment or the byte that it is told.

Commands and answers are lines of JSON; times are CLOCK_MONOTONIC seconds, which all namespaces share.
{"local": address, "remote": address or "" for any, "at": T}, or "bytes": N instead of "at", which
waits until those connections have sent N more bytes, for at most "wait" seconds. Answers {"at":
when it happened, "sent": [bytes that each destroyed connection had sent]}, or {"error": text}.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import sys
import time
from typing import Any, Dict

from nezha_tools.lab import _sockets

from campaigns.moments import until


def destroy(link: socket.socket, command: Dict[str, Any]) -> Dict[str, Any]:
    """See the head of the file."""
    ends = command["local"], command["remote"]
    found = _sockets.connections(link, *ends)
    if "bytes" in command:
        wanted = sum(c.bytes_sent for c in found) + command["bytes"]
        deadline = time.monotonic() + command["wait"]
        while sum(c.bytes_sent for c in found) < wanted and time.monotonic() < deadline:
            found = _sockets.connections(link, *ends)
    else:
        until(command["at"])
        found = _sockets.connections(link, *ends)
    at = time.monotonic()
    return {"at": at, "sent": [c.bytes_sent for c in found if _sockets.destroy_one(link, c)]}


def main() -> None:
    """Obeys until the input ends."""
    with contextlib.suppress(OSError):
        os.nice(-11)  # a fault must be on time although the ranks are busy
    link = _sockets.open_link()
    print(json.dumps({"ready": True}), flush=True)
    for line in sys.stdin:
        try:
            answer = destroy(link, json.loads(line))
        except OSError as error:  # told to the campaign, which fails
            answer = {"error": str(error)}
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
