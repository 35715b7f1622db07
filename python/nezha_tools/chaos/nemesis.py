"""Inflicts a schedule of faults on a lab and its program, and has each confirmed by the kernel.

Owner: session.run(). One thread waits for the program's first traffic, until its throughput is steady
(baseline.py; with a bound) and then for each fault's time; each fault has a thread of its own, because
faults may overlap. All end soon after stop().
"""

from __future__ import annotations

import threading
from dataclasses import asdict, dataclass
from typing import Any, Callable, Dict, Iterable, List, Optional, Tuple

from ..lab import Lab
from . import confirmation
from .baseline import PATIENCE_S, least_bps, steady_since
from .faults import SLOWER, Injection
from .ranks import Ranks
from .sampler import Sampler
from .confirmation import Verdict

# The program is at work when every rank has sent so much: a fault that hits one that is still
# starting proves nothing. The first real operation is enough, connecting is not.
TRAFFIC_BYTES = 1 << 14
DELAY_MS = 50
_POLL_S = 0.02


@dataclass
class Happening:
    """What became of one injection. Times in seconds on the sampler's clock.

    happened: confirmed by a counter; None: the program ended before that could be told.
    """

    injection: Injection
    began_s: float
    ended_s: float
    happened: Optional[bool]
    evidence: str

    def to_dict(self) -> Dict[str, Any]:
        """For JSON."""
        return {**asdict(self.injection), "where": self.injection.where, "began_s": self.began_s,
                "ended_s": self.ended_s, "happened": self.happened, "evidence": self.evidence}


class Nemesis:
    """Runs from start() to stop(); then `happenings` is complete, in the order of injection.

    on_begin, on_end: called in the nemesis' threads, one at a time.
    """

    def __init__(self, lab: Lab, schedule: Iterable[Injection], ranks: Ranks, sampler: Sampler,
                 on_begin: Callable[[Injection], None],
                 on_end: Callable[[Happening], None]) -> None:
        self._lab, self._schedule, self._ranks, self._sampler = lab, schedule, ranks, sampler
        self._on_begin, self._on_end = on_begin, on_end
        self._stopping = threading.Event()
        self._lock = threading.Lock()
        self._main = threading.Thread(target=self._run, name="nezha-chaos")
        self._lasting: List[Tuple[Injection, threading.Thread]] = []
        self.happenings: List[Happening] = []
        # When every rank had begun to move data; None: one never did.
        self.traffic_s: Optional[float] = None
        # Since when the throughput was steady as the faults began; None: it never was.
        self.steady_s: Optional[float] = None

    def start(self) -> None:
        """Begins to wait for traffic."""
        self._lab.facts(0, self._lab.state.nodes[0].ports[0].rail)  # loads what it needs, once
        self._main.start()

    def stop(self) -> None:
        """Undoes what still lasts. Returns when nothing of it runs."""
        self._stopping.set()
        if self._main.ident is not None:
            self._main.join()
        for _, thread in self._lasting:
            thread.join()
        self.happenings.sort(key=lambda happening: happening.injection.number)

    # ---- when ------------------------------------------------------------------------------

    def _run(self) -> None:
        while self._sampler.least_sent < TRAFFIC_BYTES:
            if self._over(self._sampler.now() + _POLL_S):
                return
        self.traffic_s = self._sampler.now()
        if not self._wait_for_steadiness(self.traffic_s):
            return
        begin_s = self._sampler.now()
        for injection in self._schedule:
            if self._over(begin_s + injection.at_s):
                return
            self._wait_for_those_before(injection)
            thread = threading.Thread(target=self._inflict, args=(injection,),
                                      name=f"nezha-chaos-{injection.number}")
            self._lasting = [each for each in self._lasting if each[1].is_alive()]
            self._lasting.append((injection, thread))
            thread.start()
        # Nothing more to do, but what lasts must still be cut short when the program ends.
        while not self._over(self._sampler.now() + _POLL_S):
            pass

    def _wait_for_steadiness(self, traffic_s: float) -> bool:
        """For as long as there is patience; false when the program ends before."""
        least = least_bps(self._lab.rates(), len(self._lab.state.nodes))
        while self._sampler.now() < traffic_s + PATIENCE_S:
            with self._sampler.lock:
                self.steady_s = steady_since(self._sampler.timeline, traffic_s, least)
            if self.steady_s is not None:
                return True
            if self._over(self._sampler.now() + _POLL_S):
                return False
        return True

    def _wait_for_those_before(self, injection: Injection) -> None:
        """Faults that the schedule keeps apart stay apart, however slow the machine is: together
        they could take the last rail, and one's end would undo the other."""
        for before, thread in self._lasting:
            if before.end_s <= injection.at_s:
                thread.join()

    def _over(self, until_s: float) -> bool:
        """Waits until a time on the sampler's clock; true when the program ends before."""
        while True:
            left_s = until_s - self._sampler.now()
            if self._stopping.wait(max(0.0, min(left_s, _POLL_S))):
                return True
            if self._ranks.any_ended():
                self._stopping.set()
                return True
            if left_s <= _POLL_S:
                return False

    # ---- what ------------------------------------------------------------------------------

    def _inflict(self, injection: Injection) -> None:
        happening = Happening(injection, self._sampler.now(), 0.0, None, "")
        with self._lock:
            self._on_begin(injection)
        try:
            hit = self._hit_rank if injection.rail is None else self._hit_port
            happening.happened, happening.evidence = hit(happening)
        except Exception as error:  # the report must say so, whatever it was
            happening.happened = False
            happening.evidence = f"{type(error).__name__}: {error}"
        happening.began_s = round(happening.began_s, 3)
        # A fault is over when it has been undone, which takes a moment.
        is_short = injection.lasts_s == 0
        happening.ended_s = happening.began_s if is_short else round(self._sampler.now(), 3)
        if not happening.happened and (self._stopping.is_set() or self._ranks.any_ended()):
            happening.happened = None
            happening.evidence = f"the program ended meanwhile; {happening.evidence}"
        with self._lock:
            self.happenings.append(happening)
            self._on_end(happening)

    def _last(self, happening: Happening) -> float:
        """Lets a fault that has just begun go on for its time; how long that was."""
        happening.began_s = self._sampler.now()
        self._stopping.wait(happening.injection.lasts_s)
        return self._sampler.now() - happening.began_s

    def _hit_port(self, happening: Happening) -> Verdict:
        injection, lab = happening.injection, Lab.attach(self._lab.name)  # a Lab is one thread's
        node, kind, rail = injection.node, injection.kind, injection.rail
        assert rail is not None
        before = lab.facts(node, rail)
        try:
            if kind == "flap":
                acts = self._flap(lab, happening, rail)
            else:
                acts = _act(lab, kind, node, rail)
                self._last(happening)
            during = lab.facts(node, rail)
        finally:
            if kind != "reset":
                lab.restore(node, rail)
        return confirmation.of_port(kind, before, during, acts=acts, delay_ms=DELAY_MS)

    def _flap(self, lab: Lab, happening: Happening, rail: int) -> int:
        """Lowers and raises the carrier until it is over; how often it went down."""
        injection, turns = happening.injection, 0
        happening.began_s = self._sampler.now()
        half_s = 0.5 / injection.hertz
        # By the clock, not by pauses: what the changes themselves take must not slow it down.
        while turns * half_s < injection.lasts_s and not self._stopping.is_set():
            lab.flap(injection.node, rail, up=turns % 2 == 1)
            turns += 1
            self._stopping.wait(max(0.0, happening.began_s + turns * half_s - self._sampler.now()))
        return (turns + 1) // 2

    def _hit_rank(self, happening: Happening) -> Verdict:
        rank = happening.injection.node
        if happening.injection.kind == "kill":
            return confirmation.of_kill(self._ranks.kill(rank))
        try:
            stopped = self._ranks.stop(rank)
            ticks = self._ranks.processor_ticks(rank)
            lasted_s = self._last(happening)
            ticks = self._ranks.processor_ticks(rank) - ticks
            still = self._ranks.stopped(rank)
        finally:
            self._ranks.go_on(rank)
        return confirmation.of_pause(stopped, lasted_s, ticks, still)


def _act(lab: Lab, kind: str, node: int, rail: int) -> int:
    """Begins a fault; how many connections it destroyed, where it destroys any."""
    if kind == "reset":
        return lab.reset(node, rail)
    if kind == "cut":
        lab.cut(node, rail)
    elif kind == "blackhole":
        lab.cut(node, rail, silent=True)
    elif kind in ("oneway-out", "oneway-in"):
        lab.cut(node, rail, silent=True, direction=kind[len("oneway-"):])
    elif kind == "delay":
        lab.delay(node, rail, DELAY_MS)
    else:
        rate = next(p.home_rate for p in lab.state.nodes[node].ports if p.rail == rail)
        lab.slow(node, rail, rate / SLOWER[kind])
    return 0
