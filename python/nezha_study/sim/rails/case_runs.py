"""Runs a Case and says what came of it; many cases at once on the processors of this machine."""

from __future__ import annotations

import multiprocessing
import os
import signal
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Callable, Dict, Iterable, Iterator, List

import numpy as np

from .case import Case
from .offered_load import draw
from .world import World

_WARM_UP = 0.3  # this part of a run is not measured: queues fill


@dataclass(frozen=True)
class Outcome:
    """What one run measured, behind its warm-up.

    accepted: bytes delivered, in units of Case.load. rate_gb_s: what a host sends, GB/s. latency_us,
    median_us, p95_us: from a process's wish to send to delivery, of messages delivered; beyond
    saturation they say how long the run was. short_us: mean latency of messages below Case.short_bytes.
    requests, refusals: of reservations, for each message.
    """

    accepted: float
    rate_gb_s: float
    latency_us: float
    median_us: float
    p95_us: float
    short_us: float
    messages: int
    requests: float
    refusals: float

    def row(self, case: Case) -> Dict[str, Any]:
        """The outcome with what it is about, for JSON; without its numbers that do not exist."""
        numbers = {name: round(value, 4) for name, value in vars(self).items() if value == value}
        return {"policy": case.policy, "striped": case.striped, "hosts": case.hosts,
                "rails": case.rails, "means_bytes": list(case.means), "load": case.load,
                "seed": case.seed, "processes": case.processes, "short_bytes": case.short_bytes,
                "duplex": case.network.duplex, "control_us": case.network.control_us,
                "backoff_us": case.network.backoff_us, **numbers}


def measure(case: Case) -> Outcome:
    """One run."""
    traffic = draw(case)
    world = World(case, traffic)
    world.run(traffic.horizon_us)
    begin = _WARM_UP * traffic.horizon_us
    counted = np.array([each for each in world.delivered if each[1] >= begin]).reshape(-1, 3)
    latencies = counted[:, 1] - counted[:, 0]
    accepted = counted[:, 2].sum() / (traffic.horizon_us - begin) / case.limit
    counts, messages = world.reservations.counts, max(1, len(world.delivered))
    return Outcome(
        float(accepted), float(accepted * case.limit / case.hosts / 1e3), _mean(latencies),
        _percentile(latencies, 50), _percentile(latencies, 95),
        _mean(latencies[counted[:, 2] < case.short_bytes]), len(counted),
        counts["requests"] / messages, counts["refusals"] / messages)


def _mean(values: Any) -> float:
    return float(values.mean()) if len(values) else float("nan")


def _percentile(values: Any, percent: float) -> float:
    return float(np.percentile(values, percent)) if len(values) else float("nan")


def measure_all(cases: Iterable[Case], advance: Callable[[Any], None]) -> Dict[Case, Outcome]:
    """All of them, each once, whatever the number of processors: the same outcomes. `advance` is called
    for each that is done. Ctrl-C ends what runs."""
    different: List[Case] = list(dict.fromkeys(cases))
    longest_first = sorted(different, key=_effort, reverse=True)
    outcomes: Dict[Case, Outcome] = {}
    before = set(multiprocessing.active_children())
    pool = ProcessPoolExecutor(min(len(os.sched_getaffinity(0)), len(different)))
    try:
        with _interrupts_later():
            running = {pool.submit(measure, case): case for case in longest_first}
        for future in as_completed(running):
            outcomes[running[future]] = future.result()
            advance(None)
    except BaseException:  # Ctrl-C, too: what runs now may take long
        for worker in set(multiprocessing.active_children()) - before:
            worker.terminate()
        raise
    finally:
        pool.shutdown(wait=True, cancel_futures=True)
    return {case: outcomes[case] for case in different}


@contextmanager
def _interrupts_later() -> Iterator[None]:
    """Holds Ctrl-C back while processes are started, which would leave half of a pool that hangs. The
    processes never hear of it; who started them ends them."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _effort(case: Case) -> float:
    return (case.hosts * case.processes * case.messages * case.load
            * (4 if case.policy in ("dynamic", "hybrid") else case.rails if case.striped else 1))
