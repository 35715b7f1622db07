"""One run: a lab, the user's program on its nodes, the nemesis, the counters; then the facts.

Call run() in the main thread: the launcher handles signals there.
"""

from __future__ import annotations

import json
import os
import signal
import tempfile
from dataclasses import dataclass, field
from typing import IO, Any, Callable, Dict, List, Mapping, Optional, Sequence

from nezha import launcher
from ..lab import Lab
from ..lab.ranks import in_lab
from ..lab._spec import MIN_RATE_BPS
from ..cli.errors import ChaosError
from .faults import RAIL_FAULTS, SLOWER, Injection, Plan, Schedule
from .nemesis import Happening, Nemesis
from .ranks import Ranks
from .sampler import Sampler
from .throughput import Timeline

INTERVAL_S = 0.05


@dataclass
class Request:
    """What is asked for; see command.py for the meaning."""

    command: Sequence[str]
    faults: Sequence[str]
    seed: int
    nodes: int = 4
    rails: Sequence[str] = ("1gbit", "1gbit")
    every_s: float = 2.0
    lasting_s: float = 1.0
    count: Optional[int] = None
    allow_all_down: bool = False
    only_nodes: Optional[Sequence[int]] = None
    only_rails: Optional[Sequence[int]] = None
    env: Mapping[str, str] = field(default_factory=dict)
    grace_s: float = 3.0
    mode: Optional[str] = None  # of the lab


@dataclass
class Run:
    """What a run left behind. Times on the sampler's clock, in seconds from the run's start.

    traffic_s: when every rank had begun to move data, None: one never did. steady_s: since when its
    throughput was steady as the faults began, None: it was not. ended_s: when it had ended.
    counts: by rank, what Nezha counted there; only of the ranks that came to their end.
    """

    request: Request
    outcome: launcher.Outcome
    happenings: List[Happening]
    timeline: Timeline
    traffic_s: Optional[float]
    steady_s: Optional[float]
    ended_s: float
    rates_bps: List[int]
    counts: Dict[int, Dict[str, int]]


@dataclass
class Watcher:
    """Called while it runs, in other threads; `out`: where the program's output goes."""

    begin: Callable[[Injection], None]
    end: Callable[[Happening], None]
    out: Optional[IO[bytes]] = None
    err: Optional[IO[bytes]] = None


def plan_of(request: Request) -> Plan:
    """The plan of a lab whose nodes all have all rails."""
    return Plan(request.faults, [list(range(len(request.rails)))] * request.nodes, request.every_s,
                request.lasting_s, request.seed, request.count, request.allow_all_down,
                request.only_nodes, request.only_rails)


def run(request: Request, watcher: Watcher) -> Run:
    """Runs the program to its end. Raises ChaosError, LabError or LaunchError before it starts."""
    schedule = Schedule(plan_of(request))
    with Lab(request.nodes, list(request.rails), mode=request.mode) as lab, \
            tempfile.TemporaryDirectory(prefix="nezha-chaos-") as scratch:
        _check(request, lab)
        ranks = Ranks()
        env = {**request.env, "NEZHA_LAB_STATS": scratch}
        placed = ranks.watched(in_lab(lab.name, 0, request.command, env))
        with Sampler(lab.name, len(request.rails), INTERVAL_S) as sampler:
            nemesis = Nemesis(lab, schedule, ranks, sampler, watcher.begin, watcher.end)
            nemesis.start()
            try:
                outcome = launcher.launch(
                    placed, grace_s=request.grace_s, out=watcher.out, err=watcher.err,
                    forgive=lambda rank, code: rank in ranks.killed and code == -signal.SIGKILL)
                ended_s = sampler.now()
            finally:
                nemesis.stop()
        return Run(request, outcome, nemesis.happenings, sampler.timeline, nemesis.traffic_s,
                   nemesis.steady_s, ended_s, lab.rates(), _read_counts(scratch))


def _check(request: Request, lab: Lab) -> None:
    """What only the lab can tell. Raises ChaosError."""
    wires = [kind for kind in request.faults if kind in RAIL_FAULTS or kind == "delay"]
    if lab.mode == "loopback":
        raise ChaosError("chaos needs a lab with networks of its own, and this one has loopback "
                         "addresses only: run as root, or allow user namespaces")
    if "delay" in wires and not lab.can_delay():
        raise ChaosError("delay: this kernel has no netem (CONFIG_NET_SCH_NETEM, module sch_netem), "
                         "so it cannot hold packets back; leave delay out of --faults")
    for kind, factor in SLOWER.items():
        for text, rate in zip(request.rails, lab.rates()):
            if kind in wires and rate / factor < MIN_RATE_BPS:
                raise ChaosError(f"{kind}: a rail of {text} cannot be {factor} times slower (want a "
                                 f"rate, and {MIN_RATE_BPS // 1000}kbit at least afterwards)")


def _read_counts(folder: str) -> Dict[int, Dict[str, int]]:
    """Sums over the communicators that each rank opened, by rank; see nezha._final_stats."""
    found: Dict[int, Dict[str, int]] = {}
    for name in sorted(os.listdir(folder)):
        if not name.endswith(".json"):
            continue
        with open(os.path.join(folder, name), encoding="utf-8") as file:
            record: Dict[str, Any] = json.load(file)
        into = found.setdefault(int(record["rank"]), {})
        for key, value in record["stats"].items():
            if isinstance(value, (int, float)) and not isinstance(value, bool):
                into[key] = into.get(key, 0) + int(value)
    return found
