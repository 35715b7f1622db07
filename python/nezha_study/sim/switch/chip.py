"""A tree of switch chips that add up, packet by packet. Pure; exact for this model.

Every host sends its packets to the lowest switch; a switch adds packet j of all its children when the
last of them has arrived, and sends the sum up; the root sends the result down the same tree. A packet
has to be there as a whole before it is added or sent on. Every wire and every adder does one packet at a
time, in order. A host has at most `slots` packets without a result: the slots of a switch's memory.

A message of one packet is the source's block-allreduce, a longer one its burst-allreduce.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, List, Optional

import numpy as np

from nezha_tools.cli.validation import refused, whole

NODES_MAX, PACKETS_MAX = 65536, 1 << 17


@dataclass(frozen=True)
class Chip:
    """The hardware. Raises PlanError for what cannot be.

    radix: children of a switch. host_us: software and adapter of a host, for each of the two ways.
    wire_us: one wire. switch_us: a packet through a switch. add_us: its adder, for one packet of all
    children. rate: of a wire. packet_bytes: payload of a packet. slots: packets of one host under way.
    """

    radix: int = 16
    host_us: float = 0.9
    wire_us: float = 0.05
    switch_us: float = 0.2
    add_us: float = 0.05
    rate: float = 1250.0
    packet_bytes: int = 1024
    slots: int = 64

    def __post_init__(self) -> None:
        whole("radix", self.radix, 2, 4096)
        whole("packet", self.packet_bytes, 8, 1 << 20)
        whole("slots", self.slots, 1, 1 << 20)
        for field in ("host_us", "wire_us", "switch_us", "add_us"):
            value = getattr(self, field)
            if not 0 <= value <= 1e6:
                raise refused(field, value, "a time from 0 to 1 s, in microseconds")
        if not 0 < self.rate <= 1e9:
            raise refused("rate", self.rate, "above 0 bytes per microsecond, at most 1e9")

    def levels(self, nodes: int) -> int:
        """Levels of switches above so many hosts: ceil(log_radix(nodes)), at least one."""
        levels, reach = 1, self.radix
        while reach < nodes:
            levels, reach = levels + 1, reach * self.radix
        return levels


def all_reduce_us(chip: Chip, nodes: int, size: int, starts_us: Optional[Any] = None) -> float:
    """When the last host has the whole result; starts_us: (nodes,) when each begins, default 0.

    size: bytes of a host's message. Raises PlanError for no nodes, no bytes, and too many of them.
    """
    whole("nodes", nodes, 2, NODES_MAX)
    whole("size", size, 1, PACKETS_MAX * chip.packet_bytes)
    ready = chip.host_us + (np.zeros(nodes) if starts_us is None else np.asarray(starts_us, dtype=float))
    tree = _Tree(chip, nodes)
    packets = -(-size // chip.packet_bytes)
    results: List[Any] = []
    sent = np.full(nodes, -np.inf)  # when the wire to the switch is free again
    for number in range(packets):
        taken = min(chip.packet_bytes, size - number * chip.packet_bytes) / chip.rate
        begin = np.maximum(ready, sent)
        if number >= chip.slots:
            begin = np.maximum(begin, results[number - chip.slots])
        sent = begin + taken
        results.append(tree.reduce(sent + chip.wire_us, taken))
        if number >= chip.slots:
            results[number - chip.slots] = None  # nobody asks again
    return float(results[-1].max() + chip.host_us)


class _Tree:
    """The switches: for each level the children's boundaries, and until when adders and wires are
    taken."""

    def __init__(self, chip: Chip, nodes: int) -> None:
        self._chip = chip
        self._below: List[int] = []
        width = nodes
        for _ in range(chip.levels(nodes)):
            self._below.append(width)
            width = -(-width // chip.radix)
        self._adder = [self._none(level) for level in range(len(self._below))]
        self._up = [self._none(level) for level in range(len(self._below))]
        self._down = [self._none(level) for level in range(len(self._below))]

    def _none(self, level: int) -> Any:
        return np.full(-(-self._below[level] // self._chip.radix), -np.inf)

    def reduce(self, arrivals: Any, taken: float) -> Any:
        """A packet: from its arrivals at the lowest switches to the result's at the hosts."""
        chip = self._chip
        for level, below in enumerate(self._below):
            last = np.maximum.reduceat(arrivals, np.arange(0, below, chip.radix))
            self._adder[level] = np.maximum(last, self._adder[level]) + chip.add_us
            leaves = self._adder[level] + chip.switch_us
            if level + 1 < len(self._below):
                self._up[level] = np.maximum(leaves, self._up[level]) + taken
                arrivals = self._up[level] + chip.wire_us
        for level in reversed(range(len(self._below))):
            self._down[level] = np.maximum(leaves, self._down[level]) + taken
            arrivals = np.repeat(self._down[level] + chip.wire_us, chip.radix)[:self._below[level]]
            leaves = arrivals + chip.switch_us
        return arrivals
