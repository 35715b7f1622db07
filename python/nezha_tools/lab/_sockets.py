"""TCP connections of one address, destroyed by the kernel: both ends see a reset.

Speaks sock_diag with the kernel directly. Every function works in the network namespace that the
calling thread is in, and raises OSError.
"""

from __future__ import annotations

import errno
import os
import socket
import struct
from dataclasses import dataclass
from typing import Iterator, List, Tuple

_NETLINK_SOCK_DIAG = 4
_BY_FAMILY = 20
_DESTROY = 21
_REQUEST, _ACK, _DUMP = 0x1, 0x4, 0x300
_ERROR, _DONE = 2, 3
_HEADER = struct.Struct("=LHHLL")  # length, type, flags, sequence, port
_REQUEST_HEAD = struct.Struct("=BBBBL")  # family, protocol, extensions, padding, states
_ID_OFFSET, _ID_BYTES = 4, 48  # of a connection's identity in an answer
_SOURCE_OFFSET = 4  # of the local address in an identity, after the two ports
_REMOTE_OFFSET = 20
_MESSAGE_BYTES = 72  # of struct inet_diag_msg; attributes follow
_INFO = 2  # the attribute with struct tcp_info
_SENT_OFFSET = 200  # of tcpi_bytes_sent
_CONNECTED = 1 << 1 | 1 << 8  # TCP_ESTABLISHED and TCP_CLOSE_WAIT


def _ask(link: socket.socket, kind: int, flags: int, identity: bytes) -> None:
    body = _REQUEST_HEAD.pack(socket.AF_INET, socket.IPPROTO_TCP, 1 << (_INFO - 1), 0,
                              _CONNECTED) + identity
    link.send(_HEADER.pack(_HEADER.size + len(body), kind, _REQUEST | flags, 1, 0) + body)


def _answers(link: socket.socket) -> Iterator[Tuple[int, bytes]]:
    """(type, body) of every message up to the end of a dump, or to an acknowledgement."""
    while True:
        data = link.recv(1 << 17)
        while len(data) >= _HEADER.size:
            length, kind = _HEADER.unpack_from(data)[:2]
            yield kind, data[_HEADER.size:length]
            if kind in (_ERROR, _DONE):
                return
            data = data[(length + 3) & ~3:]


def _check(body: bytes) -> None:
    number = -struct.unpack_from("=i", body)[0]
    if number:
        raise OSError(number, f"sock_diag: {os.strerror(number)}")


@dataclass(frozen=True)
class Connection:
    """A connected socket. identity: what the kernel calls it (struct inet_diag_sockid)."""

    identity: bytes
    remote: str
    bytes_sent: int


def connections(link: socket.socket, address: str, peer: str = "") -> List[Connection]:
    """The connected sockets of the local `address`, to one peer's address or ("") to any."""
    local = socket.inet_aton(address)
    found = []
    _ask(link, _BY_FAMILY, _DUMP, bytes(_ID_BYTES))
    for kind, body in _answers(link):
        if kind == _ERROR:
            _check(body)
        elif kind == _BY_FAMILY:
            identity = body[_ID_OFFSET:_ID_OFFSET + _ID_BYTES]
            remote = socket.inet_ntoa(identity[_REMOTE_OFFSET:_REMOTE_OFFSET + 4])
            if identity[_SOURCE_OFFSET:_SOURCE_OFFSET + 4] == local and peer in ("", remote):
                found.append(Connection(identity, remote, _bytes_sent(body)))
    return found


def _bytes_sent(body: bytes) -> int:
    """tcpi_bytes_sent, 0 where the kernel does not tell (before 4.19)."""
    rest = body[_MESSAGE_BYTES:]
    while len(rest) >= 4:
        length, kind = struct.unpack_from("=HH", rest)
        if kind == _INFO and length >= 4 + _SENT_OFFSET + 8:
            return int(struct.unpack_from("=Q", rest, 4 + _SENT_OFFSET)[0])
        rest = rest[max(4, (length + 3) & ~3):]
    return 0


def open_link() -> socket.socket:
    """A connection to the kernel, of this thread's namespace."""
    link = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, _NETLINK_SOCK_DIAG)
    link.bind((0, 0))
    return link


def destroy_one(link: socket.socket, connection: Connection) -> bool:
    """Whether the kernel destroyed it; False: it had closed by itself. Needs CAP_NET_ADMIN in the
    namespace and a kernel with CONFIG_INET_DIAG_DESTROY."""
    _ask(link, _DESTROY, _ACK, connection.identity)
    for kind, body in _answers(link):
        if kind == _ERROR and struct.unpack_from("=i", body)[0] != -errno.ENOENT:
            _check(body)
            return True
    return False


def destroy(address: str) -> int:
    """Destroys every TCP connection of `address`; how many the kernel says are destroyed."""
    with open_link() as link:
        return sum(destroy_one(link, each) for each in connections(link, address))


def established_resets() -> int:
    """Connections that a reset has ended in this namespace since it was made (TCP EstabResets)."""
    with open("/proc/thread-self/net/snmp", encoding="ascii") as file:
        names, values = [line.split() for line in file if line.startswith("Tcp:")]
    return int(values[names.index("EstabResets")])
