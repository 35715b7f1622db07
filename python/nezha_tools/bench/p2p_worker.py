"""One rank of a bench between pairs: `python -m nezha_tools.bench.p2p_worker SPEC.json`.

Rank 0 prints one line, `@p2p {json}`; everything else on its output is somebody's log. Pairs take turns,
and all other ranks wait meanwhile, so that a cell is what a rail does for two ranks alone.
"""

from __future__ import annotations

import math
import sys
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any, List

import numpy as np

from ..cli.errors import BenchError
from .counters import line_rate
from .formulas import median
from .lab_facts import host_name
from .message_traffic import PATTERN, contents
from .p2p_spec import P2pSpec, Port, RailMatrix

_WINDOW = 4  # messages each way that are on their way at once
_UNTOUCHED = 0xFF  # no byte of contents()
_SHORT = 8  # bytes of the message whose time is the latency
_MOST = 1000
_COPY_BYTES = 64 << 20  # beyond what most caches hold
_COPIES = 3
_PATIENCE_SECONDS = 3600.0  # of ranks that wait for the other pairs
_ONE_WAY, _BOTH_WAYS, _LATENCY = range(3)


class _Pair:
    """This rank and another one, which calls the same methods at the same time."""

    def __init__(self, comm: Any, peer: int, size: int) -> None:
        self._comm, self._peer, self._size = comm, peer, size
        self._is_lower = comm.rank < peer
        self._pattern = contents(size)
        self._buffers = [np.empty(size, np.uint8) for _ in range(_WINDOW)]
        self._short = np.zeros(_SHORT, np.uint8)
        self.wrong = 0

    def rate(self, seconds: float, sends: bool, receives: bool) -> float:
        """Bytes per second of all directions, of messages that take about `seconds`."""
        count = self._agreed(seconds / self._stream(1, sends, receives), 2)
        return count * self._size * (sends + receives) / self._stream(count, sends, receives)

    def latency(self, seconds: float) -> float:
        """Seconds of a short message: the median of half the time there and back."""
        pilot = median([self._round() for _ in range(5)])
        count = self._agreed(seconds / max(pilot, 1e-7), 5)
        return median([self._round() for _ in range(count)]) / 2

    def _meet(self) -> None:
        self._comm.sendrecv(self._short, self._peer, np.empty_like(self._short), self._peer)

    def _round(self) -> float:
        begin = time.perf_counter()
        for sends in (self._is_lower, not self._is_lower):
            if sends:
                self._comm.send(self._short, self._peer)
            else:
                self._comm.recv(self._short, self._peer)
        return time.perf_counter() - begin

    def _agreed(self, wanted: float, least: int) -> int:
        """How many messages the lower rank wants, at least `least`."""
        count = np.array([max(least, min(_MOST, math.ceil(wanted)))], np.int64)
        if self._is_lower:
            self._comm.send(count, self._peer)
        else:
            self._comm.recv(count, self._peer)
        return int(count[0])

    def _stream(self, count: int, sends: bool, receives: bool) -> float:
        """Seconds until both ends have all of `count` messages in each direction."""
        for buffer in self._buffers:
            buffer.fill(_UNTOUCHED)
        works: List[List[Any]] = [[] for _ in range(_WINDOW)]
        self._meet()
        begin = time.perf_counter()
        for number in range(count):
            slot = number % _WINDOW
            _wait(works[slot])
            works[slot] = []
            if receives:
                works[slot].append(self._comm.recv(self._buffers[slot], self._peer, async_op=True))
            if sends:
                message = self._message(self._comm.rank, number)
                works[slot].append(self._comm.send(message, self._peer, async_op=True))
        for each in works:
            _wait(each)
        self._meet()
        seconds = time.perf_counter() - begin
        for number in range(max(0, count - _WINDOW) if receives else count, count):
            message = self._message(self._peer, number)
            self.wrong += int(np.count_nonzero(self._buffers[number % _WINDOW] != message))
        return seconds

    def _message(self, sender: int, number: int) -> Any:
        first = (number + 17 * sender) % PATTERN
        return self._pattern[first:first + self._size]


def _wait(works: List[Any]) -> None:
    for work in works:
        work.wait()


def measure(comm: Any, spec: P2pSpec) -> RailMatrix:
    """Measures every pair of ranks, and every rank's memory; the same on all ranks. Collective."""
    ranks = comm.world_size
    found, copy, wrong = np.zeros((3, ranks, ranks)), np.zeros(ranks), 0
    for low in range(ranks):
        for high in range(low + 1, ranks):
            if comm.rank in (low, high):
                wrong += _measure_pair(comm, spec, low, high, found)
            comm.barrier(timeout=_PATIENCE_SECONDS)
    for rank in range(ranks):
        if comm.rank == rank:
            copy[rank] = _copy_rate()
        comm.barrier(timeout=_PATIENCE_SECONDS)
    comm.all_reduce(found)
    comm.all_reduce(copy)
    total = comm.all_reduce(np.array([wrong], np.int64))
    return RailMatrix(spec.rail, _ports(comm, spec), list(comm.stats()["host_of"]),
                      found[_ONE_WAY].tolist(), found[_BOTH_WAYS].tolist(), found[_LATENCY].tolist(),
                      copy.tolist(), int(total[0]))


def _measure_pair(comm: Any, spec: P2pSpec, low: int, high: int, found: Any) -> int:
    """Writes what this rank knows of the pair into `found`: a sender the rate one way, the lower rank the
    rest. The number of wrong bytes."""
    pair = _Pair(comm, high if comm.rank == low else low, spec.size)
    latency = pair.latency(spec.seconds)
    for sender, receiver in ((low, high), (high, low)):
        rate = pair.rate(spec.seconds, comm.rank == sender, comm.rank == receiver)
        if comm.rank == sender:
            found[_ONE_WAY, sender, receiver] = rate
    both = pair.rate(spec.seconds, True, True)
    if comm.rank == low:
        found[_LATENCY, low, high] = found[_LATENCY, high, low] = latency
        found[_BOTH_WAYS, low, high] = found[_BOTH_WAYS, high, low] = both
    return pair.wrong


def _copy_rate() -> float:
    """Bytes per second that NumPy copies from memory to memory here, the quickest of some copies."""
    source, target = np.ones(_COPY_BYTES, np.uint8), np.empty(_COPY_BYTES, np.uint8)
    seconds = []
    for _ in range(1 + _COPIES):
        begin = time.perf_counter()
        np.copyto(target, source)
        seconds.append(time.perf_counter() - begin)
    return _COPY_BYTES / min(seconds[1:])


def _ports(comm: Any, spec: P2pSpec) -> List[Port]:
    rails = comm.rails()
    if len(rails) != 1:
        raise BenchError(f"rail {spec.rail} alone: this rank has {len(rails)} rails "
                         f"({', '.join(rail['name'] for rail in rails)})")
    device = rails[0]["device"]
    mine = Port(host_name(), rails[0]["name"], spec.rates.get(device) or line_rate(device))
    return [Port(**each) for each in comm.all_gather_object(asdict(mine))]


def main() -> None:
    """Joins the world that the environment describes and runs the spec."""
    import nezha

    spec = P2pSpec.load(Path(sys.argv[1]))
    try:
        with nezha.init(config=spec.config) as comm:
            found = measure(comm, spec)
            if comm.rank == 0:
                found.emit()
    except (nezha.Error, BenchError, ValueError) as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
