"""Version 2's fail-over: how long no result comes when one of two rails fails in mid-operation."""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass
from typing import Any, Callable, Dict, List, Sequence

from nezha_tools.bench.formulas import bus_factor, median
from nezha_tools.bench.lab_runner import BenchLab
from nezha_tools.cli.errors import BenchError
from nezha_tools.lab import Lab
from .combinations import Combination, by_key
from .failover_worker import STEADY, FailoverSpec, Phase
from .jobs import Settings
from .own_job import Advance, OwnJob, large, usual_nodes
from .wrong import refuse_wrong

KIND = "failover"
NODE, RAIL = 1, 1  # that are struck
_MOST = 1 << 20  # bytes of an operation
_OPERATION_S = 0.01  # at most, or the operation itself takes what a fail-over may take
_EACH = 3  # times each fault
_STEADY_S, _STRUCK_S, _HEAL_S, _START_S = 0.4, 1.5, 15.0, 8.0
_USUALLY_S = 3.0  # until all connections are there again
FAULTS: Dict[str, Callable[[Lab], Any]] = {
    "its connections are reset": lambda lab: lab.reset(NODE, RAIL),
    "it drops all packets in silence": lambda lab: lab.cut(NODE, RAIL, silent=True),
    "it loses its carrier": lambda lab: lab.cut(NODE, RAIL)}


@dataclass(frozen=True)
class FailoverJob(OwnJob):
    """All faults on one number of nodes."""

    @property
    def title(self) -> str:
        """For people."""
        return f"{self.combination.name}, {self.nodes} nodes, a rail fails"

    def sizes(self, settings: Settings) -> List[int]:
        """One of a middle length, which wires at the study's rate carry soon."""
        soon = 2 * settings.mbits * 1e6 / 8 * _OPERATION_S / bus_factor("all_reduce", self.nodes)
        return large(settings, min(_MOST, int(soon) // 1024 * 1024))

    def records(self, settings: Settings) -> int:
        """Before and after each fault."""
        return 2 * _EACH * len(FAULTS)

    def estimate(self, settings: Settings) -> float:
        """Seconds."""
        return _START_S + _EACH * len(FAULTS) * (_STEADY_S + _STRUCK_S + _USUALLY_S)

    def measure(self, settings: Settings, advance: Advance) -> Dict[str, Any]:
        """A list of what each fault did."""
        size = self.sizes(settings)[0]
        waiting = [what for what in FAULTS for _ in range(_EACH)]
        found: List[Dict[str, Any]] = []
        with BenchLab(self.nodes, self.combination.rails(settings.mbits)) as lab:
            path = lab.scratch / "failover.json"
            FailoverSpec(size, len(waiting), _STEADY_S, _STRUCK_S, _HEAL_S).save(path)

            def act(phase: Phase) -> None:
                refuse_wrong(self, size, phase.wrong)
                if not phase.healed:
                    raise BenchError(f"{self.title}: not all connections were there again {_HEAL_S:g} s "
                                     "after the rail was restored")
                if phase.phase == STEADY:
                    found.append(strike(lab.lab, waiting.pop(0)))
                else:
                    lab.lab.restore(NODE, RAIL)
                    found[-1].update(outcome(phase, found[-1]["at_s"]), size=size)
                advance(phase)

            lab.launch([sys.executable, "-m", "nezha_study.paper.failover_worker", str(path)],
                       [{} for _ in range(lab.lab.ranks)], act, parse=Phase.parse)
            return {"faults": found, "lab": lab.facts()}


def strike(lab: Lab, what: str) -> Dict[str, Any]:
    """Lets the fault happen. at_s: before it did."""
    at_s = time.monotonic()
    FAULTS[what](lab)
    return {"what": what, "at_s": at_s}


def outcome(phase: Phase, at_s: float) -> Dict[str, Any]:
    """usual_ms: between two results before the fault; longest_ms: the longest time without one since;
    counters: what the library counted meanwhile."""
    gaps = [(end, 1e3 * (end - begin)) for begin, end in zip(phase.ends_s, phase.ends_s[1:])]
    before = [gap for end, gap in gaps if end < at_s]
    since = [gap for end, gap in gaps if end >= at_s]
    if not before or not since:
        raise BenchError("a rail was to fail while operations run, and none ended before it did, or none "
                         "since: measure again on a quieter machine")
    return {"usual_ms": median(before), "longest_ms": max(since), "counters": phase.counters}


def jobs(combinations: Sequence[Combination], nodes: Sequence[int]) -> List[FailoverJob]:
    """Two equal TCP rails."""
    pair = by_key("TT")
    return [FailoverJob(KIND, usual_nodes(nodes), pair)] if pair in combinations else []
