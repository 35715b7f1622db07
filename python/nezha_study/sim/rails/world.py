"""A cluster that runs one Case: processes that send, hosts that allocate rails, ports that move bytes.

SimPy keeps the time. A process of a host is a SimPy process: it sends its messages one after another,
each when it is there and the one before has been delivered. What ports do are callbacks.
"""

from __future__ import annotations

from random import Random
from typing import Any, Callable, Generator, List, Tuple

import simpy

from .case import Case
from .jobs import Job, Request
from .policies import BY_NAME
from .ports import Part, Port, Wires
from .reservation import Reservations
from .offered_load import Traffic

_ARITY = 4  # of the fat tree: so many hosts or switches below every switch


def switches_between(one: int, other: int) -> int:
    """How many switches a packet passes from one host to another: up to the lowest common switch and
    down, 2 levels - 1."""
    levels = 0
    while one != other:
        one, other, levels = one // _ARITY, other // _ARITY, levels + 1
    return max(0, 2 * levels - 1)


class World:
    """One run. `delivered`: (arrival, delivery, bytes) of each message, times in microseconds."""

    def __init__(self, case: Case, traffic: Traffic) -> None:
        self.case, self.traffic = case, traffic
        self.env = simpy.Environment()
        self.ports = [[Port(host, rail) for rail in range(case.rails)] for host in range(case.hosts)]
        self.delivered: List[Tuple[float, float, int]] = []
        self.offered = 0
        random = Random(f"{case.seed} {case.policy}")
        self.policy = BY_NAME[case.policy](case, random)
        self.wires = Wires(case.network, lambda: self.env.now, self._after, self._freed)
        self.reservations = Reservations(case.network, random, lambda: self.env.now, self._after,
                                         self._way_us, self._send_granted, self._refused, self._freed)
        self._waiting: List[List[Job]] = [[] for _ in range(case.hosts)]

    def run(self, until_us: float = float("inf")) -> None:
        """Lets all processes send until that time, or until everything is delivered."""
        self.start()
        self.env.run(until_us)

    def start(self) -> None:
        """Wakes the processes; `env` then has what happens."""
        for process in range(self.case.hosts * self.case.processes):
            self.env.process(self._process(process))

    # ---- time ----------------------------------------------------------------------------------

    def _after(self, delay_us: float, call: Callable[..., Any], *arguments: Any) -> None:
        event = self.env.timeout(delay_us)
        event.callbacks.append(lambda _: call(*arguments))

    def _way_us(self, one: int, other: int) -> float:
        return self.case.network.switch_us * switches_between(one, other)

    # ---- processes -----------------------------------------------------------------------------

    def _process(self, process: int) -> Generator[simpy.Event, Any, None]:
        host = process // self.case.processes
        traffic = self.traffic
        for arrival, size, destination in zip(traffic.arrivals_us[process].tolist(),
                                              traffic.sizes[process].tolist(),
                                              traffic.destinations[process].tolist()):
            if arrival > self.env.now:
                yield self.env.timeout(arrival - self.env.now)
            self.offered += 1
            is_there = self.env.event()
            self._begin(host, process, destination, size, is_there)
            yield is_there
            self.delivered.append((arrival, self.env.now, size))

    def _begin(self, host: int, process: int, destination: int, size: int, is_there: Any) -> None:
        policy = self.policy
        to_host = destination // self.case.processes
        stripes = policy.stripes(size)
        rails = (policy.striped_rails if stripes else policy.rails)(host, destination)
        groups = [rails] if policy.striped_anywhere or not stripes else [(rail,) for rail in rails]
        missing = len(groups)

        def one_is_done() -> None:
            nonlocal missing
            missing -= 1
            if missing == 0:
                is_there.succeed()

        for group in groups:
            self._try(Job(size / len(groups), host, to_host, group,
                          stripes and policy.striped_anywhere, policy.reserves(size),
                          (self.env.now, host, process), one_is_done))

    # ---- allocation ----------------------------------------------------------------------------

    def _try(self, job: Job) -> bool:
        """Puts a job on free ports, or lets it wait for one. Returns whether it went."""
        mine = self.ports[job.host]
        free = [mine[rail] for rail in job.rails
                if rail not in job.tried and self.policy.may_send(mine[rail])]
        if not free:
            if job not in self._waiting[job.host]:
                self._waiting[job.host].append(job)
            return False
        if not job.spread:
            free = free[:1]
        targets = [self.ports[job.to_host][port.rail] for port in free]
        if job.reserves:
            self.reservations.ask(job, free, targets)
        else:
            self._send(job, free, targets, [None] * len(free))
        return True

    def _freed(self, port: Port) -> None:
        """A port stopped sending or receiving: the jobs of its host that wait may have it."""
        waiting = self._waiting[port.host]
        for job in list(waiting):
            if not self.policy.may_send(port):
                return
            if port.rail in job.rails:
                waiting.remove(job)
                self._try(job)

    def _refused(self, job: Job) -> None:
        """None of the ports that were asked for is to be had: the next idle one, or a pause."""
        mine = self.ports[job.host]
        if any(rail not in job.tried and mine[rail].is_idle for rail in job.rails):
            self._try(job)
            return
        job.tried.clear()
        self._after(self.reservations.pause_us(job), self._try, job)
        job.refusals += 1

    # ---- sending -------------------------------------------------------------------------------

    def _send_granted(self, job: Job, granted: List[Request]) -> None:
        self._send(job, [each.port for each in granted], [each.target for each in granted], granted)

    def _send(self, job: Job, sources: List[Port], targets: List[Port], requests: List[Any]) -> None:
        job.parts_left = len(sources)

        def part_is_done() -> None:
            job.parts_left -= 1
            if job.parts_left == 0:
                job.done()

        latency = self.case.network.startup_us + self._way_us(job.host, job.to_host)
        for source, target, request in zip(sources, targets, requests):
            part = Part(job.size / len(sources), source, target, part_is_done, request)
            source.sending = part
            self._after(latency, self.wires.arrive, part)
