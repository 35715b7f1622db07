"""Strangers in a crowd: opens connections to the given ports as fast as asked, each says or does one of
many wrong things. Arguments: SECONDS RATE ADDRESS:PORT...; prints one line of JSON, see flood()."""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import socket
import struct
import sys
import time
from collections import Counter, deque
from typing import Deque, Dict, List, Tuple

_HELD_MAX = 400  # connections that hang, at the same time
_LINGER_S = 0.2  # how long one with something to say stays
_HELLO = struct.pack("<IHHQIIIHHI", 0x485A4E7F, 1, 0, 4711, 2, 1, 0, 0, 0, 0) + bytes(16 + 12)
_TLS = bytes.fromhex("160301020001") + b"\x00\x01\xfc\x03\x03" + bytes(507)

# What a stranger says; None: nothing, and goes; "": nothing, and stays.
KINDS: List[Tuple[str, "bytes | None"]] = [
    ("close", None), ("hang", b""), ("byte", b"\x7f"), ("junk", b"\xa5" * 64), ("junk", os.urandom(4096)),
    ("http", b"GET / HTTP/1.1\r\nHost: rail\r\n\r\n"), ("tls", _TLS),
    ("hello", _HELLO), ("half a hello", _HELLO[:40]),
    ("hello and proof", _HELLO + b"\x7fNZP" + bytes(60))]
# Seldom, or the wire would be full of what strangers say, which nobody at its end can help.
_LONG = ("megabyte", b"N" * (1 << 20))
_LONG_EVERY = 200


class Flooder:
    """ports: (address, port). One thread; never blocks on a connection."""

    def __init__(self, ports: List[Tuple[str, int]]) -> None:
        self._ports = ports
        self._selector = selectors.DefaultSelector()
        self._leaving: Deque[Tuple[float, socket.socket]] = deque()
        self._held: Deque[socket.socket] = deque()
        self.made: Counter = Counter()
        self.failed = 0

    def open(self, number: int) -> None:
        """Begins the next connection."""
        stranger = socket.socket(socket.AF_INET, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
        try:
            stranger.connect(self._ports[number % len(self._ports)])
        except BlockingIOError:
            pass
        except OSError:
            self.failed += 1
            stranger.close()
            return
        kind = KINDS[number // len(self._ports) % len(KINDS)]
        if number % _LONG_EVERY == 0:
            kind = _LONG
        self._selector.register(stranger, selectors.EVENT_WRITE, kind)

    def serve(self) -> None:
        """Speaks on connections that are up."""
        for key, _events in self._selector.select(0):
            stranger, (name, words) = key.fileobj, key.data
            assert isinstance(stranger, socket.socket)
            self._selector.unregister(stranger)
            if stranger.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) != 0:
                self.failed += 1
                stranger.close()
                continue
            self.made[name] += 1
            with contextlib.suppress(OSError):  # closed upon it: as it should be
                if words:
                    stranger.send(words)
            if words is None:
                stranger.close()
            elif words == b"":
                self._held.append(stranger)
            else:
                self._leaving.append((time.monotonic() + _LINGER_S, stranger))
        while len(self._held) > _HELD_MAX:
            self._held.popleft().close()
        while self._leaving and self._leaving[0][0] < time.monotonic():
            self._leaving.popleft()[1].close()

    def flood(self, seconds: float, rate: float) -> Dict[str, object]:
        """Answers how many connections were made, by kind, how many could not be, and how many a
        second there were."""
        begin, number = time.monotonic(), 0
        while (now := time.monotonic()) < begin + seconds:
            due = min(int((now - begin) * rate) - number, 64)
            for _ in range(due):
                self.open(number)
                number += 1
            self.serve()
            if due <= 0:
                time.sleep(0.0005)
        total = sum(self.made.values())
        return {"made": dict(self.made), "failed": self.failed, "total": total,
                "per_second": total / (time.monotonic() - begin)}


def main(arguments: List[str]) -> None:
    """See the head of the file."""
    ports = [(address, int(port)) for address, port in
             (port.rsplit(":", 1) for port in arguments[2:])]
    print(json.dumps(Flooder(ports).flood(float(arguments[0]), float(arguments[1]))), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
