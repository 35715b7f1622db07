"""TCP connections of this network namespace, listed and destroyed through the kernel's sock_diag.

Destroying sends a reset to the other side and fails the owner's calls, as if a middlebox had cut the
connection. Needs CAP_NET_ADMIN in the namespace; every function raises OSError.
"""

from __future__ import annotations

import os
import socket
import struct
from dataclasses import dataclass
from typing import Iterator, List, Tuple

_NETLINK_SOCK_DIAG = 4
_SOCK_DIAG_BY_FAMILY = 20
_SOCK_DESTROY = 21
_REQUEST, _ACK, _DUMP = 1, 4, 0x300
_DONE, _ERROR = 3, 2
_ESTABLISHED = 1
_INFO = 2  # INET_DIAG_INFO: struct tcp_info
_HEADER = struct.Struct("=IHHII")
_REQUEST_V2 = struct.Struct("=BBBBI")
_MESSAGE = struct.Struct("=BBBB48sIIIII")
_BYTES_SENT_AT = 200  # in tcp_info


@dataclass
class Connection:
    """One established connection. identity: the kernel's struct inet_diag_sockid."""

    local: Tuple[str, int]
    remote: Tuple[str, int]
    bytes_sent: int
    identity: bytes


class SockDiag:
    """An open netlink socket; of one thread."""

    def __init__(self) -> None:
        self._socket = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, _NETLINK_SOCK_DIAG)
        self._socket.settimeout(5)

    def between(self, local: str, remote: str) -> List[Connection]:
        """Established connections of two addresses; an empty remote means all of `local`."""
        return [c for c in self._dump() if c.local[0] == local and remote in ("", c.remote[0])]

    def destroy(self, connection: Connection) -> bool:
        """Whether the connection was still there, and now is not."""
        body = _REQUEST_V2.pack(socket.AF_INET, socket.IPPROTO_TCP, 0, 0, 1 << _ESTABLISHED)
        self._send(_SOCK_DESTROY, _REQUEST | _ACK, body + connection.identity)
        for kind, answer in self._messages():
            if kind == _ERROR:
                number = -struct.unpack_from("=i", answer)[0]
                if number in (0, 2):  # done; ENOENT: it had ended by itself
                    return number == 0
                raise OSError(number, f"SOCK_DESTROY of {connection.local} -> "
                                      f"{connection.remote}: {os.strerror(number)}")
        raise OSError("SOCK_DESTROY was not answered")

    def _dump(self) -> Iterator[Connection]:
        body = _REQUEST_V2.pack(socket.AF_INET, socket.IPPROTO_TCP, 1 << (_INFO - 1), 0,
                                1 << _ESTABLISHED)
        self._send(_SOCK_DIAG_BY_FAMILY, _REQUEST | _DUMP, body + bytes(48))
        while True:
            for kind, answer in self._messages():
                if kind == _DONE:
                    return
                if kind == _ERROR:
                    number = -struct.unpack_from("=i", answer)[0]
                    raise OSError(number, f"sock_diag: {os.strerror(number)}")
                yield _connection(answer)

    def _send(self, kind: int, flags: int, body: bytes) -> None:
        self._socket.send(_HEADER.pack(_HEADER.size + len(body), kind, flags, 1, 0) + body)

    def _messages(self) -> Iterator[Tuple[int, bytes]]:
        data = self._socket.recv(1 << 18)
        while len(data) >= _HEADER.size:
            length, kind, _, _, _ = _HEADER.unpack_from(data)
            yield kind, data[_HEADER.size:length]
            data = data[(length + 3) & ~3:]


def _connection(answer: bytes) -> Connection:
    identity = _MESSAGE.unpack_from(answer)[4]
    local_port, remote_port = struct.unpack_from(">HH", identity)
    sent, rest = 0, answer[_MESSAGE.size:]
    while len(rest) >= 4:
        length, kind = struct.unpack_from("=HH", rest)
        if kind == _INFO and length - 4 >= _BYTES_SENT_AT + 8:
            sent = struct.unpack_from("=Q", rest, 4 + _BYTES_SENT_AT)[0]
        rest = rest[(length + 3) & ~3:] if length else b""
    return Connection((socket.inet_ntoa(identity[4:8]), local_port),
                      (socket.inet_ntoa(identity[20:24]), remote_port), sent, identity)
