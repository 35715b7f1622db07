"""How much this machine can shape: plain streams between the nodes of a lab, and no collective.

Every node sends to the next one that has a port on the same rail, on all rails at once, for about a
second, which begins when all nodes are connected. What arrives says whether the wires or this machine's
processors are the limit at the rates that the lab was asked for. A collective computes besides, so what
this reaches is the most that it can reach.
"""

from __future__ import annotations

import json
import select
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Dict, List, Optional, Tuple

from ..cli.errors import LabError
from ._state import LabState

_STREAMS = str(Path(__file__).with_name("_capacity_streams.py"))
_PORT = 29390
_WARM_S = 0.2  # TCP finds the rate
_WINDOW_S = 0.25
_WINDOWS = 3  # the best counts: what else runs can only take away
_PATIENCE_S = 20.0  # with each step of a node
_REACHED = 0.95  # of the rates: the streams are at the wires
_PLENTY = 0.5  # of the processors: what streams may take so that a collective, which computes, has enough


@dataclass(frozen=True)
class Capacity:
    """asked, reached: bit/s on the wire of all nodes' ports together, one direction. busy: share of this
    machine's processors meanwhile, 0 to 1."""

    asked: float
    reached: float
    busy: float

    @property
    def limit(self) -> str:
        """What limits a collective here: "wires" or "cores"."""
        is_reached = self.reached >= _REACHED * self.asked
        return "wires" if is_reached and self.busy <= _PLENTY else "cores"

    def sentence(self) -> str:
        """For people."""
        asked, busy = f"{self.asked / 1e9:.3g}", f"{100 * self.busy:.0f} %"
        if self.reached < _REACHED * self.asked:
            return (f"this machine can shape {self.reached / 1e9:.2g} Gbit/s in all; {asked} asked: the "
                    "cores are the limit")
        return (f"this machine can shape the {asked} Gbit/s asked, which takes {busy} of its cores: the "
                f"{self.limit} are the limit")

    def as_dict(self) -> Dict[str, Any]:
        """For JSON."""
        return {"asked_gbps": self.asked / 1e9, "reached_gbps": self.reached / 1e9,
                "busy": self.busy, "limit": self.limit, "sentence": self.sentence()}


def measure(lab: Any) -> Optional[Capacity]:
    """The capacity of a Lab that is up and idle; None where nothing is shaped. Raises LabError."""
    streams, asked = _ring(lab.state)
    if not asked:
        return None
    nodes = [_Node(lab, number, plan) for number, plan in streams.items()]
    try:
        for node in nodes:
            node.hear("listening")
        for node in nodes:
            node.tell("connect")
        for node in nodes:
            node.hear("connected")
        begin = time.monotonic() + _WARM_S
        edges = [begin + number * _WINDOW_S for number in range(_WINDOWS + 1)]
        for node in nodes:
            node.tell(json.dumps(edges))
        ticks = []
        for edge in edges:
            time.sleep(max(0.0, edge - time.monotonic()))
            ticks.append(_processors())
        received = [node.received() for node in nodes]
    finally:
        for node in nodes:
            node.end()
    bits = [8 * sum(each) / _WINDOW_S for each in zip(*received)]
    # Of all windows: one has few ticks of the clock, by which the kernel counts.
    busy, total = (ticks[-1][i] - ticks[0][i] for i in (0, 1))
    return Capacity(asked, max(bits), busy / total if total else 0.0)


class _Node:
    """A node's streams, which go through the same steps on all nodes. Methods raise LabError."""

    def __init__(self, lab: Any, number: int, plan: Dict[str, Any]) -> None:
        self._number = number
        self._child = lab.popen(number, [sys.executable, "-I", "-S", _STREAMS, json.dumps(plan)],
                                bufsize=0, stdin=-1, stdout=-1, stderr=-1)

    def hear(self, word: str) -> None:
        """Waits until the node says it."""
        ready, _, _ = select.select([self._child.stdout], [], [], _PATIENCE_S)
        if not ready:
            raise self._failure(f"it was not {word} after {_PATIENCE_S:.0f} s")
        if self._child.stdout.readline().decode().strip() != word:
            raise self._failure(self._last_words())

    def tell(self, line: str) -> None:
        """Lets the node take its next step."""
        try:
            self._child.stdin.write(line.encode() + b"\n")
        except BrokenPipeError as error:
            raise self._failure(self._last_words()) from error

    def received(self) -> List[float]:
        """Bytes on the wire in each window."""
        out, err = self._child.communicate(timeout=_PATIENCE_S)
        if self._child.returncode != 0:
            raise self._failure(_last_line(err))
        return [float(each) for each in json.loads(out)]

    def end(self) -> None:
        """Ends it, wherever it is."""
        self._child.kill()
        self._child.communicate()

    def _last_words(self) -> str:
        self._child.kill()
        return _last_line(self._child.communicate()[1])

    def _failure(self, why: str) -> LabError:
        return LabError(f"node {self._number} could not measure its wires: {why}")


def _last_line(err: bytes) -> str:
    words: List[str] = err.decode(errors="replace").strip().splitlines()
    return words[-1] if words else "no words"


def _ring(lab: LabState) -> Tuple[Dict[int, Dict[str, Any]], float]:
    """What each node listens on and connects to, and the rates of all streams together. A stream counts
    bytes on the wire: payload times its share of a full frame."""
    plans: Dict[int, Dict[str, Any]] = {}
    asked = 0.0
    if lab.mode == "loopback":
        return plans, asked
    for rail in range(len(lab.rail_rates)):
        ports = [(number, port) for number, node in enumerate(lab.nodes) for port in node.ports
                 if port.rail == rail and port.rate]
        if len({number for number, _ in ports}) < 2:
            continue
        for (number, port), (other, target) in zip(ports, ports[1:] + ports[:1]):
            mtu = min(port.path_mtu, target.path_mtu)
            mine = plans.setdefault(number, {"listen": [], "connect": []})
            mine["connect"].append([port.address.partition("/")[0], target.address.partition("/")[0],
                                    _PORT])
            plans.setdefault(other, {"listen": [], "connect": []})["listen"].append(
                [target.address.partition("/")[0], _PORT, (mtu + 14) / (mtu - 52)])
            asked += min(port.rate, target.rate)
    return plans, asked


def _processors() -> Tuple[int, int]:
    """(busy, all) ticks of all processors since boot."""
    with open("/proc/stat", encoding="ascii") as file:
        ticks = [int(each) for each in file.readline().split()[1:9]]
    idle = ticks[1] + ticks[3] + ticks[4]  # who asked to be nice yields
    return sum(ticks) - idle, sum(ticks)
