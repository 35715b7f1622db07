"""Measures a lab's wire: what single transfers after a pause, and long streams, get of it.

As a program it prints the table of docs/lab.md:
    python tests/lab/wire_meter.py --rate 1gbit --burst 16000 --gso 8192
Ratios are payload over the most that TCP can carry in the shaped rate: 1.0 is the honest wire.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from typing import Any, Dict, List, Sequence, Tuple

try:
    import nezha.lab  # noqa: F401  (installed?)
except ImportError:  # no: the source tree
    sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "..", "python"))

from nezha.lab import Lab, parse_rate
from nezha_tools.lab import shaping

_PORT = 7100
_SETTLE_S = 0.5
Pairs = Sequence[Tuple[int, int]]
# 1448 bytes of payload in a frame of 1514 bytes: headers, timestamps option.
PAYLOAD_SHARE = 1448 / 1514

# Both ends ask for more than their fair share of the CPU: the wire is measured, not the scheduler.
_EAGER = r"""
import os
try:
    os.nice(-15)
except OSError:
    pass
"""

_RECEIVER = _EAGER + r"""
import json, socket, sys, time
server = socket.create_server(("0.0.0.0", int(sys.argv[1])))
print("ready", flush=True)
link = server.accept()[0]
view = memoryview(bytearray(1 << 20))
kind, a, b = sys.argv[2], float(sys.argv[3]), float(sys.argv[4])
if kind == "transfers":
    ends = []
    for _ in range(int(b)):
        left = int(a)
        while left:
            left -= link.recv_into(view[: min(left, len(view))])
        ends.append(time.monotonic())
        link.sendall(b"k")
    print(json.dumps(ends))
else:
    got = 0
    while True:
        n = link.recv_into(view)
        at = time.monotonic()
        if not n or at >= b:
            break
        got += n if at >= a else 0
    print(got)
"""

_SENDER = _EAGER + r"""
import json, socket, sys, time
link = socket.create_connection((sys.argv[1], int(sys.argv[2])))
link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
kind, a, b = sys.argv[3], float(sys.argv[4]), float(sys.argv[5])
if kind == "transfers":
    data = bytes(int(a))
    starts = []
    for _ in range(int(b)):
        time.sleep(0.05)
        starts.append(time.monotonic())
        link.sendall(data)
        link.recv(1)
    print(json.dumps(starts), flush=True)
else:
    data = bytes(1 << 18)
    try:
        while time.monotonic() < b + 0.2:
            link.sendall(data)
    except OSError:
        pass  # the receiver has seen enough
"""


def _meter(lab: Lab, pairs: Pairs, rail: int, kind: str, a: float, b: float) -> Any:
    """Runs a receiver and a sender process per (from, to); their JSON results, pair by pair."""
    pipe: Dict[str, Any] = {"stdout": subprocess.PIPE, "text": True}
    arguments = [kind, str(a), str(b)]
    python = [sys.executable, "-S", "-c"]
    sinks = [lab.popen(to, python + [_RECEIVER, str(_PORT + k)] + arguments, **pipe)
             for k, (_, to) in enumerate(pairs)]
    for sink in sinks:
        sink.stdout.readline()
    sources = []
    for k, (node, to) in enumerate(pairs):
        address = lab.state.nodes[to].ports[rail].address.split("/")[0]
        where = [address, str(_PORT + k)]
        sources.append(lab.popen(node, python + [_SENDER] + where + arguments, **pipe))
    received = [json.loads(sink.communicate(timeout=60)[0]) for sink in sinks]
    sent = [json.loads(source.communicate(timeout=60)[0] or "null") for source in sources]
    return received, sent


def after_idle(lab: Lab, rate: int, size: int, count: int, rail: int = 0) -> List[float]:
    """Ratios of `count` transfers of `size` bytes from node 0 to 1, each after 50 ms of silence."""
    received, sent = _meter(lab, [(0, 1)], rail, "transfers", size, count)
    limit = rate / 8 * PAYLOAD_SHARE
    return [size / (end - start) / limit for start, end in zip(sent[0], received[0])]


def streams(lab: Lab, rate: int, pairs: Pairs, seconds: float, rail: int = 0) -> List[float]:
    """Ratio of each of the simultaneous streams (from, to), all seen through one window of time."""
    start = time.monotonic() + _SETTLE_S + 0.1 * len(pairs)  # the same clock in every namespace
    received, _ = _meter(lab, pairs, rail, "stream", start, start + seconds)
    return [got / seconds / (rate / 8 * PAYLOAD_SHARE) for got in received]


def _busy_seconds() -> float:
    with open("/proc/stat", encoding="ascii") as file:
        ticks = [int(word) for word in file.readline().split()[1:9]]
    return (sum(ticks) - ticks[3] - ticks[4]) / 100


def main() -> None:
    """Prints one line per wire: what transfers after a pause and streams got of it."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--rate", nargs="+", default=["1gbit"])
    parser.add_argument("--burst", nargs="+", type=int, default=[0], help="bytes, 0 = chosen")
    parser.add_argument("--gso", nargs="+", type=int, default=[16384, 65536], help="segments")
    parser.add_argument("--count", type=int, default=20)
    parser.add_argument("--seconds", type=float, default=2)
    wanted = parser.parse_args()
    print(f"{'':21} | {'256K after idle':15} | {'1M after idle':13} | {'streams, sum':20} | "
          "ring of 4, slowest\n"
          f"{'rate':8} {'burst':>6} {'gso':>5} | {'median':>8} {'max':>6} | {'median':>6} "
          f"{'max':>6} | {'one':>6} {'four':>6} {'3 to 1':>6} | {'ratio':>6} {'CPU s/GB':>8}")
    for rate in wanted.rate:
        for burst in wanted.burst:
            for gso in wanted.gso:
                way = shaping.Way(gso, gso + -(-gso // 1448) * 66, 54e-6 if gso < 65536 else 24e-6)
                shaping.way = lambda rate, kind, way=way: way
                with Lab(4, [rate], burst=burst or None) as lab:
                    _row(lab, rate, lab.state.burst_of(parse_rate(rate)), gso, wanted)


def _row(lab: Lab, text: str, burst: int, gso: int, wanted: argparse.Namespace) -> None:
    rate = parse_rate(text)
    small = after_idle(lab, rate, 256 << 10, wanted.count)
    large = after_idle(lab, rate, 1 << 20, wanted.count)
    one = sum(streams(lab, rate, [(0, 1)], wanted.seconds))
    four = sum(streams(lab, rate, [(0, 1)] * 4, wanted.seconds))
    incast = sum(streams(lab, rate, [(0, 1), (2, 1), (3, 1)], wanted.seconds))
    busy, begin = _busy_seconds(), time.monotonic()
    ring = streams(lab, rate, [(0, 1), (1, 2), (2, 3), (3, 0)], wanted.seconds)
    spent, lasted = _busy_seconds() - busy, time.monotonic() - begin
    gigabytes = sum(ring) * rate / 8 * PAYLOAD_SHARE * lasted / 1e9
    print(f"{text:8} {burst:6} {gso:5} | {statistics.median(small):8.3f} {max(small):6.3f} | "
          f"{statistics.median(large):6.3f} {max(large):6.3f} | {one:6.3f} {four:6.3f} "
          f"{incast:6.3f} | {min(ring):6.3f} {spent / gigabytes:8.2f}", flush=True)


if __name__ == "__main__":
    main()
