"""TCP connections of one address, destroyed by the kernel: both ends see a reset.

Speaks sock_diag with the kernel directly. Every function works in the network namespace that the
calling thread is in, and raises OSError.
"""

from __future__ import annotations

import errno
import os
import socket
import struct
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
_CONNECTED = 1 << 1 | 1 << 8  # TCP_ESTABLISHED and TCP_CLOSE_WAIT


def _ask(link: socket.socket, kind: int, flags: int, identity: bytes) -> None:
    body = _REQUEST_HEAD.pack(socket.AF_INET, socket.IPPROTO_TCP, 0, 0, _CONNECTED) + identity
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


def connections(link: socket.socket, address: str) -> List[bytes]:
    """Identities of the connected sockets whose local address is `address`."""
    local = socket.inet_aton(address)
    found = []
    _ask(link, _BY_FAMILY, _DUMP, bytes(_ID_BYTES))
    for kind, body in _answers(link):
        if kind == _ERROR:
            _check(body)
        elif kind == _BY_FAMILY:
            identity = body[_ID_OFFSET:_ID_OFFSET + _ID_BYTES]
            if identity[_SOURCE_OFFSET:_SOURCE_OFFSET + 4] == local:
                found.append(identity)
    return found


def destroy(address: str) -> int:
    """Destroys every TCP connection of `address`; how many the kernel says are destroyed.

    Needs CAP_NET_ADMIN in the namespace and a kernel with CONFIG_INET_DIAG_DESTROY.
    """
    count = 0
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, _NETLINK_SOCK_DIAG) as link:
        link.bind((0, 0))
        for identity in connections(link, address):
            _ask(link, _DESTROY, _ACK, identity)
            for kind, body in _answers(link):
                if kind == _ERROR and struct.unpack_from("=i", body)[0] != -errno.ENOENT:
                    _check(body)
                    count += 1  # -ENOENT: it has closed by itself meanwhile
    return count


def established_resets() -> int:
    """Connections that a reset has ended in this namespace since it was made (TCP EstabResets)."""
    with open("/proc/thread-self/net/snmp", encoding="ascii") as file:
        names, values = [line.split() for line in file if line.startswith("Tcp:")]
    return int(values[names.index("EstabResets")])
