"""One node's part of capacity.measure(): a script without imports of its own package.

Its argument is JSON: `listen` ([address, port, wire bytes per payload byte]), `connect` ([own address,
address, port]) and `edges`, times on this machine's monotonic clock. Sends and receives as fast as it
can until the last edge, and prints, as JSON, the bytes on the wire that arrived between each two edges.
"""

import json
import selectors
import socket
import sys
import time

_CHUNK = 1 << 18
_TRY_S = 0.02


def main() -> None:
    """Runs the plan."""
    plan = json.loads(sys.argv[1])
    edges = plan["edges"]
    listeners = [(_listener(address, port), share) for address, port, share in plan["listen"]]
    outgoing = [_connect(own, address, port, edges[0]) for own, address, port in plan["connect"]]
    incoming = [(listener.accept()[0], share) for listener, share in listeners]
    print(json.dumps(_stream(outgoing, incoming, edges)))


def _listener(address: str, port: int) -> socket.socket:
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind((address, port))
    listener.listen()
    return listener


def _connect(own: str, address: str, port: int, deadline: float) -> socket.socket:
    while True:
        try:
            return socket.create_connection((address, port), 1.0, (own, 0))
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(_TRY_S)


def _stream(outgoing: list, incoming: list, edges: list) -> list:
    selector = selectors.DefaultSelector()
    payload, buffer = memoryview(bytes(_CHUNK)), memoryview(bytearray(_CHUNK))
    for peer in outgoing:
        peer.setblocking(False)
        selector.register(peer, selectors.EVENT_WRITE)
    for peer, share in incoming:
        peer.setblocking(False)
        selector.register(peer, selectors.EVENT_READ, share)
    arrived = [0.0] * len(edges)  # the first: before the first edge
    window = 0
    while True:
        ready = selector.select(0.05)
        now = time.monotonic()
        while window < len(edges) and now >= edges[window]:
            window += 1
        if window == len(edges):
            return arrived[1:]
        for key, _ in ready:
            count = _move(key, payload, buffer)
            if count == 0:
                selector.unregister(key.fileobj)
            elif key.data is not None and count > 0:
                arrived[window] += count * key.data


def _move(key: selectors.SelectorKey, payload: memoryview, buffer: memoryview) -> int:
    """Bytes sent or received; 0 when the connection is over, -1 when it was not ready."""
    try:
        return key.fileobj.send(payload) if key.data is None else key.fileobj.recv_into(buffer)
    except BlockingIOError:
        return -1
    except OSError:
        return 0


if __name__ == "__main__":
    main()
