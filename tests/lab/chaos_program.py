"""A program for chaos to work on: every rank sends to the next over rails, until a file appears.

    python chaos_program.py STOP_FILE RAIL,RAIL,... [BEGIN_S [AGAIN_S]]
                                                        plain TCP, connecting again as often as needed;
                                                        for the first BEGIN_S seconds only small packets,
                                                        and AGAIN_S after each connection that was lost
    python chaos_program.py STOP_FILE nezha             all_reduce, every result checked
"""

from __future__ import annotations

import os
import socket
import sys
import threading
import time

_PORT = 7100


def _swallow(link: socket.socket) -> None:
    try:
        while link.recv(1 << 16):
            pass
    except OSError:
        pass


def _serve(address: str) -> None:
    server = socket.create_server((address, _PORT))
    while True:
        threading.Thread(target=_swallow, args=(server.accept()[0],), daemon=True).start()


def _send(address: str, stop_file: str, begin_s: float, again_s: float) -> None:
    data = bytes(1 << 14)
    begin = time.monotonic() + begin_s
    while time.monotonic() < begin and not os.path.exists(stop_file):
        time.sleep(0.02)
    while not os.path.exists(stop_file):
        try:
            with socket.create_connection((address, _PORT), timeout=0.5) as link:
                while not os.path.exists(stop_file):
                    link.sendall(data)
        except OSError:
            time.sleep(again_s)


def _shout(address: str, stop_file: str) -> None:
    """Broadcasts: packets both ways on every port at any time, whatever TCP waits for."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as speaker:
        speaker.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)
        while not os.path.exists(stop_file):
            try:
                speaker.sendto(b"!", (address, _PORT))
            except OSError:
                pass
            time.sleep(0.02)


def plain(stop_file: str, rails: str, begin_s: float = 0.0, again_s: float = 0.02) -> None:
    """Traffic on the rails named, as fast as they go."""
    rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    senders = []
    for rail in map(int, rails.split(",")):
        threading.Thread(target=_serve, args=(f"10.{rail + 1}.0.{rank + 1}",), daemon=True).start()
        peer = f"10.{rail + 1}.0.{(rank + 1) % size + 1}"
        senders.append(threading.Thread(target=_send, args=(peer, stop_file, begin_s, again_s)))
        everybody = f"10.{rail + 1}.0.255"
        senders.append(threading.Thread(target=_shout, args=(everybody, stop_file)))
    for sender in senders:
        sender.start()
    for sender in senders:
        sender.join()


def collective(stop_file: str) -> None:
    """all_reduce after all_reduce; a wrong result ends the rank with an AssertionError."""
    import numpy

    import nezha

    with nezha.init(timeout=60.0) as comm:
        expected = float(sum(range(comm.world_size)))
        data = numpy.zeros(1 << 18, numpy.float32)
        over = numpy.zeros(1, numpy.int32)
        while not over[0]:
            data[:] = comm.rank
            comm.all_reduce(data)
            assert (data == expected).all(), "wrong result"
            over[0] = os.path.exists(stop_file)
            comm.all_reduce(over, op="max")


if __name__ == "__main__":
    if sys.argv[2] == "nezha":
        collective(sys.argv[1])
    else:
        plain(sys.argv[1], sys.argv[2], *map(float, sys.argv[3:]))
