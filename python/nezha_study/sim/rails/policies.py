"""Which rails a message may take, and when a port counts as free: one small class a policy.

Sources: docs/rail_study.md. `modulo` is the slides' common algorithm, `round_robin` their basic one;
`random` is what the authors' note on the later article names as better than round-robin.
"""

from __future__ import annotations

from random import Random
from typing import Dict, List, Sequence, Type

from nezha_tools.bench.static_rails import assign, fewest_rails
from .case import Case
from .ports import Port


class Policy:
    """Decides for all hosts. `striped_anywhere`: a striped message takes whatever is free when it
    starts; otherwise it has a part on each of its rails, and each part waits for its own."""

    striped_anywhere = False

    def __init__(self, case: Case, random: Random) -> None:
        self.case, self.random = case, random
        self._all = tuple(range(case.rails))
        self._turns = [0] * case.hosts

    def rails(self, host: int, to_process: int) -> Sequence[int]:
        """The rails for a message that is not striped, the preferred one first."""
        raise NotImplementedError

    def striped_rails(self, host: int, to_process: int) -> Sequence[int]:
        """The rails for a message that is."""
        return self._all

    def may_send(self, port: Port) -> bool:
        """Whether a part may be put on this port now."""
        return port.sending is None

    def reserves(self, size: float) -> bool:
        """Whether both ends are reserved before a message of that size is sent."""
        return False

    def stripes(self, size: float) -> bool:
        """Whether a message of that size is divided."""
        return self.case.striped

    def turned(self, host: int) -> List[int]:
        """All rails, beginning with another each time that this host asks."""
        turn = self._turns[host]
        self._turns[host] = (turn + 1) % self.case.rails
        return [*self._all[turn:], *self._all[:turn]]


class Modulo(Policy):
    """Destination modulo rails."""

    def rails(self, host: int, to_process: int) -> Sequence[int]:
        return (to_process % self.case.rails,)


class AtRandom(Policy):
    """A random rail."""

    def rails(self, host: int, to_process: int) -> Sequence[int]:
        return (self.random.randrange(self.case.rails),)


class RoundRobin(Policy):
    """A host's rails in turn; the message waits while its rail sends another."""

    def rails(self, host: int, to_process: int) -> Sequence[int]:
        return self.turned(host)[:1]


class Static(Policy):
    """A port only sends or only receives, by the assignment of `nezha plan rails`; any free one of the
    rails on which the sender sends and the receiver receives."""

    striped_anywhere = True

    def __init__(self, case: Case, random: Random) -> None:
        super().__init__(case, random)
        used = range(fewest_rails(case.hosts))
        self._sends = [[bool(mask >> rail & 1) for rail in used] for mask in assign(case.hosts)]

    def rails(self, host: int, to_process: int) -> Sequence[int]:
        sends, receives = self._sends[host], self._sends[to_process // self.case.processes]
        return [rail for rail in self.turned(host)
                if rail < len(sends) and sends[rail] and not receives[rail]]

    striped_rails = rails


class LocalDynamic(Policy):
    """Any rail whose port here neither sends nor receives."""

    striped_anywhere = True

    def rails(self, host: int, to_process: int) -> Sequence[int]:
        return self.turned(host)

    striped_rails = rails

    def may_send(self, port: Port) -> bool:
        return port.is_idle


class Dynamic(LocalDynamic):
    """Any rail whose two ports are free, reserved before anything is sent."""

    def reserves(self, size: float) -> bool:
        return True


class Hybrid(LocalDynamic):
    """Long messages as Dynamic, short ones as LocalDynamic and never striped."""

    def reserves(self, size: float) -> bool:
        return size >= self.case.short_bytes

    def stripes(self, size: float) -> bool:
        return self.case.striped and self.reserves(size)


BY_NAME: Dict[str, Type[Policy]] = {
    "modulo": Modulo, "random": AtRandom, "round_robin": RoundRobin, "static": Static,
    "local_dynamic": LocalDynamic, "dynamic": Dynamic, "hybrid": Hybrid}
