"""Which fault hits what and when: a schedule that is a function of its seed alone.

Pure: nothing here touches the kernel or the clock. Times are seconds from the moment when the
program's undisturbed throughput has been measured (baseline.py).
"""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from typing import Dict, Iterator, List, Optional, Sequence, Set, Tuple

from ..cli.errors import ChaosError

# What a user may ask for, and what it means.
FAULTS: Dict[str, str] = {
    "cut": "the carrier goes: a pulled cable",
    "blackhole": "the switch drops every packet of the port without a word; the carrier stays",
    "oneway": "the same in one direction only, which of the two changes",
    "reset": "the rail's TCP connections are destroyed in mid-stream",
    "slow": "a tenth of the rate, both ways",
    "crawl": "a hundredth of the rate, both ways",
    "flap": "the carrier comes and goes 1 to 10 times a second",
    "delay": "50 ms more in each direction (kernels with netem only)",
    "pause": "SIGSTOP of a rank, then SIGCONT",
    "kill": "SIGKILL of a rank: ends the program unless it is made for that",
}
RAIL_FAULTS = ("cut", "blackhole", "oneway", "reset", "slow", "crawl", "flap")
SLOWER = {"slow": 10, "crawl": 100}
_PARTS = {"oneway": ("oneway-out", "oneway-in")}
# While these last, nothing passes the port (in one direction at least).
_DOWN = {"cut", "blackhole", "oneway-out", "oneway-in", "reset", "flap"}
_OF_RANKS = {"pause", "kill"}
_FLAPS_HZ = (1.0, 10.0)
# A fault begins up to this share of the interval late, so that it never keeps step with the program.
_LATE = 0.25


@dataclass(frozen=True)
class Injection:
    """One fault. rail: None where a whole rank is hit. hertz: of flapping, else 0."""

    number: int
    kind: str
    node: int
    rail: Optional[int]
    at_s: float
    lasts_s: float
    hertz: float = 0.0

    @property
    def end_s(self) -> float:
        """When it is over."""
        return self.at_s + self.lasts_s

    @property
    def where(self) -> str:
        """For people: "node 1 rail 0", "rank 2"."""
        return f"rank {self.node}" if self.rail is None else f"node {self.node} rail {self.rail}"


@dataclass(frozen=True)
class Plan:
    """What a schedule is made from.

    ports: by node, the numbers of the rails it is attached to. only_*: None = all may be hit.
    count: at most so many faults, None = until the program ends.
    """

    faults: Sequence[str]
    ports: Sequence[Sequence[int]]
    every_s: float
    lasting_s: float
    seed: int
    count: Optional[int] = None
    allow_all_down: bool = False
    only_nodes: Optional[Sequence[int]] = None
    only_rails: Optional[Sequence[int]] = None


def parse_faults(text: str) -> List[str]:
    """The faults named in "cut,slow". Raises ChaosError."""
    wanted = [word.strip() for word in text.split(",") if word.strip()]
    unknown = [word for word in wanted if word not in FAULTS]
    if unknown or not wanted:
        raise ChaosError(f"--faults {text!r}: {', '.join(unknown) or 'nothing'} is no fault; want "
                         f"some of {', '.join(FAULTS)}")
    return list(dict.fromkeys(wanted))


def parse_seconds(text: str) -> float:
    """Seconds of "2s", "500ms", "1.5", "2m". Raises ChaosError."""
    for unit, factor in (("ms", 1e-3), ("s", 1.0), ("m", 60.0), ("", 1.0)):
        if text.endswith(unit):
            try:
                value = float(text[:len(text) - len(unit)]) * factor
            except ValueError:
                break
            if 0.05 <= value <= 86400:
                return value
            break
    raise ChaosError(f"{text!r} is no time: want 50ms to 1440m, e.g. 2s, 500ms, 2m")


class Schedule:
    """The faults of a plan, in order of time; the same ones whenever it is iterated.

    No rail is taken from a pair of nodes when it is the last that both can use, unless the plan
    allows it; no port and no rank has two faults at once; one rank is always left alive. Every kind
    comes once before any comes again. Raises ChaosError where a kind can never happen.
    """

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._kinds = [part for kind in plan.faults for part in _PARTS.get(kind, (kind,))]
        if not self._kinds:
            raise ChaosError("no faults to inflict")
        for kind in self._kinds:
            if not _targets(plan, kind, [], set()):
                raise ChaosError(_why_never(plan, kind))

    def __iter__(self) -> Iterator[Injection]:
        plan, rng = self._plan, random.Random(self._plan.seed)
        deck: List[str] = []
        open_: List[Injection] = []
        killed: Set[int] = set()
        number = slot = 0
        while plan.count is None or number < plan.count:
            slot += 1
            late_s = rng.uniform(0, _LATE * plan.every_s)
            at_s = slot * plan.every_s + late_s
            open_ = [each for each in open_ if each.end_s > at_s]
            found = self._draw(rng, deck, open_, killed)
            if found is None:
                if not open_:
                    return  # so many ranks are dead that nothing can be hit any more
                continue
            kind, (node, rail) = found
            low, high = _FLAPS_HZ
            hertz = round(low * (high / low) ** rng.random(), 1) if kind == "flap" else 0.0
            lasts_s = 0.0 if kind in ("reset", "kill") else plan.lasting_s
            injection = Injection(number, kind, node, rail, round(at_s, 3), lasts_s, hertz)
            number += 1
            # What was reset needs a while to come back: its rail counts as taken for as long.
            open_.append(replace(injection, lasts_s=plan.lasting_s) if kind == "reset" else injection)
            if kind == "kill":
                killed.add(node)
            yield injection

    def _draw(self, rng: random.Random, deck: List[str], open_: Sequence[Injection],
              killed: Set[int]) -> Optional[Tuple[str, Tuple[int, Optional[int]]]]:
        """Takes the first kind that fits out of the deck; None when none does now."""
        for _ in range(2):
            for kind in deck:
                targets = _targets(self._plan, kind, open_, killed)
                if targets:
                    deck.remove(kind)
                    return kind, rng.choice(targets)
            if deck and open_:
                return None  # their turn comes when something is over
            deck[:] = self._kinds  # used up, or what is left of it can never happen again
            rng.shuffle(deck)
        return None


def _targets(plan: Plan, kind: str, open_: Sequence[Injection],
             killed: Set[int]) -> List[Tuple[int, Optional[int]]]:
    """The (node, rail) that `kind` may hit while `open_` last."""
    nodes = [node for node in range(len(plan.ports))
             if node not in killed and (plan.only_nodes is None or node in plan.only_nodes)]
    if kind in _OF_RANKS:
        if kind == "kill" and len(killed) + 1 >= len(plan.ports):
            return []
        busy = {each.node for each in open_ if each.rail is None}
        return [(node, None) for node in nodes if node not in busy]
    taken = {(each.node, each.rail) for each in open_}
    down = {(each.node, each.rail) for each in open_ if each.kind in _DOWN}
    found: List[Tuple[int, Optional[int]]] = []
    for node in nodes:
        for rail in plan.ports[node]:
            if (node, rail) in taken or (
                    plan.only_rails is not None and rail not in plan.only_rails):
                continue
            if (kind in _DOWN and not plan.allow_all_down
                    and not _joined(plan, down | {(node, rail)}, killed)):
                continue
            found.append((node, rail))
    return found


def _joined(plan: Plan, down: Set[Tuple[int, Optional[int]]], killed: Set[int]) -> bool:
    """Whether every two living nodes still share a rail that is down at neither of them."""
    up = [{rail for rail in rails if (node, rail) not in down}
          for node, rails in enumerate(plan.ports) if node not in killed]
    return all(a & b for number, a in enumerate(up) for b in up[:number])


def _why_never(plan: Plan, kind: str) -> str:
    if kind == "kill" and len(plan.ports) < 2:
        return "kill: the only rank cannot be killed"
    for name, chosen in (("nodes", plan.only_nodes), ("rails", plan.only_rails)):
        if chosen is not None and not set(chosen) & set(
                range(len(plan.ports)) if name == "nodes" else sum(map(list, plan.ports), [])):
            return f"--only-{name} leaves nothing to hit"
    return (f"{kind}: it would leave two nodes without a rail between them. Give the lab more rails, "
            "or allow it with --allow-all-down")
