"""Costs of rails found from measured operations: those with which the engine's times are nearest.

Smallest squares of the relative errors (Gauss and Newton, damped as Levenberg and Marquardt do), by
running the engine on the same schedules. Units: seconds, bytes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Callable, List, Optional, Sequence, Tuple

import numpy as np

from nezha_tools.cli.errors import PlanError
from .cluster import Cluster, uniform
from .operation import Question, simulate

Array = np.ndarray[Any, Any]
_ROUNDS = 30
_NUDGE = 1e-3  # of a parameter's logarithm, for its derivative
_DONE = 1e-6


@dataclass(frozen=True)
class Point:
    """One measured operation. rails: those that the world had."""

    hosts: int
    rails: Tuple[int, ...]
    collective: str
    algorithm: str
    size: int
    seconds: float


@dataclass(frozen=True)
class RailCosts:
    """A rail as fitted: bytes per second, seconds, seconds a message. error: the largest relative error
    of the points that it was fitted to."""

    rate: float
    latency_s: float
    gap_s: float
    error: float


def rail_alone(points: Sequence[Point], burst_bytes: float, segment_bytes: float,
               adds: float) -> RailCosts:
    """The costs of one rail from operations that had only this one: rate and latency from the long ones
    (all but the shortest size), then, from the short ones, what a message costs its receiver's processor.

    Raises PlanError without two long sizes: rate and latency are told apart by them.
    """
    shortest = min(point.size for point in points)
    long = [point for point in points if point.size > shortest]
    short = [point for point in points if point.size == shortest and point.hosts > 2]
    if len({point.size for point in long}) < 2:
        raise PlanError("a rail's rate and latency need measurements of two sizes at least, beside a "
                        "short one")

    def cluster(hosts: int, rate: float, latency_s: float, gap_s: float = 0.0) -> Cluster:
        return uniform(hosts, [(rate, latency_s)], adds, gap_s, [burst_bytes],
                       [segment_bytes])

    def late(logs: Array) -> Array:
        rate, latency_s = np.exp(logs).tolist()
        return np.array([np.log(predicted(cluster(point.hosts, rate, latency_s), point) / point.seconds)
                         for point in long])

    largest = max(long, key=lambda point: point.size)
    guess = [largest.size / largest.seconds, max(1e-6, min(point.seconds for point in long) / 20)]
    logs = _least_squares(late, np.log(guess))
    rate, latency_s = np.exp(logs).tolist()
    rests = [(point.seconds - predicted(cluster(point.hosts, rate, latency_s), point)) / (point.hosts - 1)
             for point in short]
    return RailCosts(rate, latency_s, max(0.0, min(rests, default=0.0)),
                     float(np.abs(np.expm1(late(logs))).max()))


def inside(ranks: int, times: Sequence[Tuple[int, float]]) -> Tuple[float, float]:
    """Bytes per second that a rank sends to others of its host, and seconds of a message, from (bytes,
    seconds) of all_gathers by a ring of the host's `ranks` ranks: each sends ranks - 1 messages of
    bytes / ranks, one after the other. Raises PlanError without two sizes."""
    if len({size for size, _ in times}) < 2:
        raise PlanError("the costs inside a host need measurements of two sizes at least")
    messages = ranks - 1
    shortest, latency_s = min((size, seconds / messages) for size, seconds in times)
    rates = [messages * size / ranks / max(seconds - messages * latency_s, 1e-3 * seconds)
             for size, seconds in times if size > shortest]
    return float(np.median(rates)), latency_s


def predicted(cluster: Cluster, point: Point, nominal: Optional[Tuple[float, ...]] = None) -> float:
    """The engine's time for a measured operation."""
    question = Question(point.collective, point.size, point.algorithm, nominal=nominal)
    return simulate(cluster, question).outcome.total_s


def _least_squares(errors: Callable[[Array], Array], start: Array) -> Array:
    """Levenberg and Marquardt's method (docs/adr/0017)."""
    at, damping = start.astype(float), 1e-2
    here = errors(at)
    for _ in range(_ROUNDS):
        slopes: List[Array] = []
        for index in range(at.size):
            nudged = at.copy()
            nudged[index] += _NUDGE
            slopes.append((errors(nudged) - here) / _NUDGE)
        matrix = np.array(slopes).T
        square = matrix.T @ matrix
        step = np.linalg.solve(square + damping * (np.diag(np.diag(square)) + 1e-9 * np.eye(at.size)),
                               -matrix.T @ here)
        step = np.clip(step, -2.0, 2.0)
        there = errors(at + step)
        if there @ there < here @ here:
            gained = float(here @ here - there @ there)
            at, here, damping = at + step, there, max(damping / 10, 1e-9)
            if gained < _DONE * float(here @ here) + 1e-12:
                break
        else:
            damping *= 10
            if damping > 1e6:
                break
    return at
