"""Ports, their half-duplex buses, and the parts of messages that move between two of them.

A port sends at most one part and receives at most one. A part begins to move when the receiving port is
free; until then it waits there in the order of arrival, and holds its sending port: a blocked message
blocks what is behind it. Only a part that was not reserved goes in front of one that was, between whose
packets its own fit: it stops that one until it has passed (Network.short_pass). While a port's two
directions move, each gets half of `duplex` of the bus; a part moves at the slower of its two ends.
"""

from __future__ import annotations

from collections import deque
from typing import Any, Callable, Deque, Optional

from .case import Network


class Port:
    """One host's end of one rail. `waiting_parts` have arrived and wait for it to receive them."""

    __slots__ = ("host", "rail", "sending", "receiving", "waiting_parts", "request", "granted",
                 "processor_free_us")

    def __init__(self, host: int, rail: int) -> None:
        self.host, self.rail = host, rail
        self.sending: Optional[Part] = None
        self.receiving: Optional[Part] = None
        self.waiting_parts: Deque[Part] = deque()
        self.request: Any = None  # the Request of ours that is being asked for
        self.granted: Any = None  # the Request of another that we receive next, or now
        self.processor_free_us = 0.0

    @property
    def is_idle(self) -> bool:
        """Whether it neither sends nor receives, nor is about to, as far as its host knows."""
        return (self.sending is None and self.receiving is None and self.request is None
                and self.granted is None)


class Part:
    """What one rail carries of a message: its bytes still to move, at which rate, since when."""

    __slots__ = ("size", "source", "target", "left", "rate", "since", "version", "request", "done")

    def __init__(self, size: float, source: Port, target: Port, done: Callable[[], None],
                 request: Any = None) -> None:
        self.size, self.source, self.target = size, source, target
        self.left = float(size)
        self.rate = 0.0  # 0 while it does not move
        self.since = 0.0
        self.version = 0
        self.done = done
        self.request = request


class Wires:
    """Moves parts. `now` tells the time, `after` calls a function later; `freed` hears of every port
    that stopped sending or receiving."""

    def __init__(self, network: Network, now: Callable[[], float],
                 after: Callable[..., None], freed: Callable[[Port], None]) -> None:
        self._alone = network.bus
        self._shared = network.bus * network.duplex / 2
        self._short_pass = network.short_pass
        self._now, self._after, self._freed = now, after, freed
        self.bytes_moved = 0.0

    def arrive(self, part: Part) -> None:
        """The head of a part has reached the port that receives it."""
        port = part.target
        port.waiting_parts.append(part)
        moving = port.receiving
        if (self._short_pass and moving is not None and part.request is None
                and moving.request is not None):
            self._hold(moving)
        self._receive_next(port)

    def _hold(self, part: Part) -> None:
        """Stops a reserved part, which goes on when no part without reservation is left."""
        self._settle(part)
        part.rate = 0.0
        part.version += 1
        part.target.receiving = None
        part.target.waiting_parts.append(part)
        self._set_rates(part)

    def _receive_next(self, port: Port) -> None:
        if port.receiving is None and port.waiting_parts:
            part = self._next_of(port)
            port.waiting_parts.remove(part)
            port.receiving = part
            part.rate = self._shared  # it moves; the right rate comes next
            part.since = self._now()
            self._set_rates(part)

    def _next_of(self, port: Port) -> Part:
        first = port.waiting_parts[0]
        if self._short_pass:
            return next((each for each in port.waiting_parts if each.request is None), first)
        return first

    def _set_rates(self, part: Part) -> None:
        """A part began or ended: the rates of all that share a bus with it."""
        self._set_rate(part)
        beside = part.source.receiving
        if beside is not None:
            self._set_rate(beside)
        beside = part.target.sending
        if beside is not None:
            self._set_rate(beside)

    def _set_rate(self, part: Part) -> None:
        if part.rate == 0.0:
            return
        self._settle(part)
        alone = not (_both_move(part.source) or _both_move(part.target))
        part.rate = self._alone if alone else self._shared
        part.version += 1
        self._after(max(0.0, part.left) / part.rate, self._end, part, part.version)

    def _settle(self, part: Part) -> None:
        now = self._now()
        moved = (now - part.since) * part.rate
        self.bytes_moved += moved
        part.left -= moved
        part.since = now

    def _end(self, part: Part, version: int) -> None:
        if version != part.version:
            return  # its rate has changed since
        self.bytes_moved += part.left
        source, target = part.source, part.target
        part.left = part.rate = 0.0
        source.sending = target.receiving = None
        if part.request is not None and target.granted is part.request:
            target.granted = None
        self._set_rates(part)
        self._receive_next(target)
        part.done()
        self._freed(source)
        self._freed(target)


def _both_move(port: Port) -> bool:
    sent, received = port.sending, port.receiving
    return sent is not None and sent.rate > 0 and received is not None
