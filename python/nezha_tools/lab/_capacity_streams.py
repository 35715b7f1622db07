"""One node's part of capacity.measure(): a script without imports of its own package.

Its argument is JSON: `listen` ([address, port, wire bytes per payload byte]) and `connect` ([own address,
address, port]). It listens, says so, and connects when it hears a line, because all nodes listen then;
it says that, too. The next line is JSON: edges, times on this machine's monotonic clock. It sends and
receives as fast as it can until the last edge, and prints, as JSON, the bytes on the wire that arrived
between each two edges. Whoever started it has ended when its standard input does, and so it ends, too.
"""

import json
import selectors
import socket
import sys
import time

_CHUNK = 1 << 18
_CONNECT_S = 10.0  # the kernel repeats a request that was lost after 1, 3 and 7 s


def main() -> None:
    """Runs the plan."""
    plan = json.loads(sys.argv[1])
    listeners = [(_listener(address, port), share) for address, port, share in plan["listen"]]
    _say_and_hear("listening")
    outgoing = [socket.create_connection((address, port), _CONNECT_S, (own, 0))
                for own, address, port in plan["connect"]]
    edges = json.loads(_say_and_hear("connected"))
    incoming = [(listener.accept()[0], share) for listener, share in listeners]
    print(json.dumps(_stream(outgoing, incoming, edges)))


def _say_and_hear(word: str) -> str:
    print(word, flush=True)
    line = sys.stdin.readline()
    if not line:
        sys.exit("nobody waits for the result")
    return line


def _listener(address: str, port: int) -> socket.socket:
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind((address, port))
    listener.listen()
    return listener


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
