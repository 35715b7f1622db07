"""The reservation protocol of `dynamic` and `hybrid`: REQ, GRANT, NACK, CANCEL between two ports.

A sender asks for the other end of a rail whose end here is idle. The other port grants when it is idle,
too. When it has a request of its own out, the older of the two goes first: an older one is granted and
the own one withdrawn (a GRANT that still comes for that is answered by CANCEL); a younger one gets a
NACK, as it does from a port that sends or receives. A refused sender tries its next idle rail, then
pauses. Nobody waits for a port while it holds another, and requests are ordered in total, so requests in
a circle cannot wait for each other: the oldest of them is never refused by one that only asks.
"""

from __future__ import annotations

from random import Random
from typing import Any, Callable, Dict, List

from . import jobs
from .case import Network
from .jobs import Job, Request
from .ports import Port


class Reservations:
    """Asks and answers for all ports. `way_us` gives the time of a control packet between two hosts;
    `send` gets a job with the ports that were granted; `retry` one that has paused."""

    def __init__(self, network: Network, random: Random, now: Callable[[], float],
                 after: Callable[..., None],
                 way_us: Callable[[int, int], float], send: Callable[[Job, List[Request]], None],
                 retry: Callable[[Job], None], freed: Callable[[Port], None]) -> None:
        self._network, self._random, self._now, self._after = network, random, now, after
        self._way_us, self._send, self._retry, self._freed = way_us, send, retry, freed
        self.counts: Dict[str, int] = dict.fromkeys(("requests", "grants", "refusals", "withdrawn",
                                                     "cancelled"), 0)

    def ask(self, job: Job, ports: List[Port], targets: List[Port]) -> None:
        """Sends a request over each of these idle ports."""
        job.unanswered = len(ports)
        job.granted = []
        for port, target in zip(ports, targets):
            job.tried.add(port.rail)
            port.request = request = Request(job, port, target)
            self.counts["requests"] += 1
            self._packet(port, target, self._asked, request)

    def _packet(self, one: Port, other: Port, handle: Callable[..., None], *arguments: Any) -> None:
        """Sends a control packet; `handle` is called when the other port's processor is done with it."""
        self._after(self._way_us(one.host, other.host), self._arrived, other, handle, *arguments)

    def _arrived(self, port: Port, handle: Callable[..., None], *arguments: Any) -> None:
        begin = max(self._now(), port.processor_free_us)
        port.processor_free_us = begin + self._network.control_us
        self._after(port.processor_free_us - self._now(), handle, *arguments)

    def _asked(self, request: Request) -> None:
        """REQ has reached the other end."""
        target = request.target
        is_granted = False
        if target.is_idle and not target.waiting_parts:
            is_granted = True
        elif (target.request is not None and target.receiving is None
              and jobs.is_older(request, target.request)):
            self._withdraw(target.request)
            is_granted = True
        if is_granted:
            target.granted = request
        self._packet(target, request.port, self._answered, request, is_granted)

    def _withdraw(self, request: Request) -> None:
        self.counts["withdrawn"] += 1
        request.is_withdrawn = True
        request.port.request = None
        self._one_answer(request.job)

    def _answered(self, request: Request, is_granted: bool) -> None:
        """GRANT or NACK has come back."""
        self.counts["grants" if is_granted else "refusals"] += 1
        if request.is_withdrawn:
            if is_granted:
                self.counts["cancelled"] += 1
                self._packet(request.port, request.target, self._cancelled, request)
            return
        request.port.request = None
        if is_granted:
            request.job.granted.append(request)
            request.port.granted = request  # held here until all answers are in
        self._one_answer(request.job)
        if not is_granted:
            self._freed(request.port)

    def _cancelled(self, request: Request) -> None:
        if request.target.granted is request:
            request.target.granted = None
            self._freed(request.target)

    def _one_answer(self, job: Job) -> None:
        job.unanswered -= 1
        if job.unanswered:
            return
        if job.granted:
            for request in job.granted:
                request.port.granted = None
            self._send(job, job.granted)
        else:
            self._retry(job)

    def pause_us(self, job: Job) -> float:
        """How long a job rests after all its idle rails were refused: longer each time, up to a bound,
        and random, so that two of them do not meet again at once."""
        longest = min(self._network.backoff_most_us, self._network.backoff_us * 2.0 ** job.refusals)
        return longest * (0.5 + self._random.random())
