"""The file of `nezha calibrate`: what the rails of one cluster cost, and what that was fitted to.

Version 1, JSON: "rails": [{"name", "rate_gbps", "latency_us", "nominal_gbps", "burst_bytes",
"segment_bytes", "fit_error"}], "gap_us" (processor time of a message), "adds_gb_per_s" of float32 with
"adds" (how it is known) and "adds_by_dtype" (GB/s; empty: not measured), "inside"
({"rate_gb_per_s", "latency_us", "ranks"}: a message between ranks of one host; null: not measured),
"rate_lost" and "split_cost_us" (null: not measured), "ports" ([host][rail]: the part of the usual rate
that a host's port has; null: not measured, all are alike), "points": [{"hosts", "rails", "collective",
"algorithm", "size", "time_us"}], all that was measured of rails.
Errors: PlanError naming the file and the field.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any, Dict, List, Optional, Sequence, Tuple

import numpy as np

from ..plan.documents import read_json
from nezha_tools.cli.errors import PlanError
from nezha_tools.cli.units import gbps
from .cluster import Cluster, uniform
from .fit import Point, RailCosts, rail_alone

KIND = "nezha calibration"
VERSION = 1
ADDS = 4e9  # bytes per second that a processor adds, the library's constant
MEASURED, INTERPOLATED, EXTRAPOLATED = "measured", "interpolated", "extrapolated"


@dataclass(frozen=True)
class RailFacts:
    """What is known of a rail beside its costs. nominal: bytes per second that it is advertised with."""

    name: str
    nominal: Optional[float]
    burst_bytes: float
    segment_bytes: float


@dataclass(frozen=True)
class Inside:
    """What a message costs between ranks of one host: bytes per second that each sends while all do, and
    seconds. ranks: how many measured it."""

    rate: float
    latency_s: float
    ranks: int


@dataclass(frozen=True)
class Calibration:
    """The file's content, in bytes and seconds."""

    facts: List[RailFacts]
    costs: List[RailCosts]
    gap_s: float
    adds: float
    adds_by_dtype: Dict[str, float]  # bytes per second
    rate_lost: Optional[List[List[float]]]
    split_cost_s: Optional[float]
    points: List[Point]
    inside: Optional[Inside] = None
    ports: Optional[List[List[float]]] = None  # [host][rail]

    @property
    def nominal(self) -> Optional[Tuple[float, ...]]:
        """The advertised rates; None where one is not known."""
        known = tuple(each.nominal for each in self.facts if each.nominal)
        return known if len(known) == len(self.facts) else None

    def rails(self) -> List[Tuple[float, float]]:
        """(bytes per second, latency in seconds) of each rail; a message's processor time is latency."""
        return [(each.rate, each.latency_s + self.gap_s) for each in self.costs]

    def cluster(self, hosts: int) -> Cluster:
        """`hosts` hosts with these rails, alike unless they are as many as `ports` has."""
        made = uniform(hosts, [(each.rate, each.latency_s) for each in self.costs], self.adds, self.gap_s,
                       [each.burst_bytes for each in self.facts],
                       [each.segment_bytes for each in self.facts], self.rate_lost)
        made.split_cost_s = self.split_cost_s
        if self.inside is not None:
            made.inside = (self.inside.rate, self.inside.latency_s)
        if self.ports is not None and len(self.ports) == hosts:
            # Operations over all hosts, to which costs are fitted, are as fast as the slowest port.
            parts = np.array(self.ports)
            made.rate = made.rate * parts / parts.min(axis=0)
        return made

    def measured_us(self, collective: str, hosts: int, size: int) -> Optional[float]:
        """What this very operation took on all rails, in microseconds; None where it was not measured."""
        every = tuple(range(len(self.facts)))
        return next((1e6 * each.seconds for each in self.points
                     if (each.collective, each.hosts, each.size, each.rails)
                     == (collective, hosts, size, every)), None)

    def known_as(self, collective: str, hosts: int, size: int) -> str:
        """Whether an answer was measured itself, lies between what was, or beyond."""
        if self.measured_us(collective, hosts, size) is not None:
            return MEASURED
        counts, sizes = [each.hosts for each in self.points], [each.size for each in self.points]
        within = min(counts) <= hosts <= max(counts) and min(sizes) <= size <= max(sizes)
        return INTERPOLATED if within and any(each.collective == collective
                                              for each in self.points) else EXTRAPOLATED


def calibrate(facts: Sequence[RailFacts], points: Sequence[Point],
              interference: Optional[Tuple[float, List[List[float]]]] = None,
              adds_by_dtype: Optional[Dict[str, float]] = None,
              inside: Optional[Inside] = None,
              ports: Optional[List[List[float]]] = None) -> Calibration:
    """Fits every rail to the operations that had it alone. interference: (cost of splitting in seconds,
    parts of the rates that are lost). adds_by_dtype: bytes per second that a host was measured to add.
    ports: as Pairs.parts has them."""
    measured = adds_by_dtype or {}
    adds = measured.get("float32", ADDS)
    costs = [rail_alone([each for each in points if each.rails == (rail,)], fact.burst_bytes,
                        fact.segment_bytes, adds) for rail, fact in enumerate(facts)]
    split_cost_s, lost = (None, None) if interference is None else interference
    return Calibration(list(facts), costs, median(each.gap_s for each in costs), adds, measured, lost,
                       split_cost_s, list(points), inside, ports)


def document(found: Calibration) -> Dict[str, Any]:
    """The file as JSON."""
    return {
        "kind": KIND, "version": VERSION,
        "rails": [{"name": fact.name, "rate_gbps": gbps(cost.rate), "latency_us": 1e6 * cost.latency_s,
                   "nominal_gbps": gbps(fact.nominal) if fact.nominal else None,
                   "burst_bytes": fact.burst_bytes, "segment_bytes": fact.segment_bytes,
                   "fit_error": cost.error, "gap_us": 1e6 * cost.gap_s}
                  for fact, cost in zip(found.facts, found.costs)],
        "gap_us": 1e6 * found.gap_s, "adds_gb_per_s": found.adds / 1e9,
        "adds": MEASURED if found.adds_by_dtype else "the library's constant",
        "adds_by_dtype": {dtype: rate / 1e9 for dtype, rate in found.adds_by_dtype.items()},
        "inside": None if found.inside is None else {
            "rate_gb_per_s": found.inside.rate / 1e9, "latency_us": 1e6 * found.inside.latency_s,
            "ranks": found.inside.ranks},
        "rate_lost": found.rate_lost,
        "split_cost_us": None if found.split_cost_s is None else 1e6 * found.split_cost_s,
        "ports": found.ports,
        "points": [{"hosts": each.hosts, "rails": list(each.rails), "collective": each.collective,
                    "algorithm": each.algorithm, "size": each.size, "time_us": 1e6 * each.seconds}
                   for each in found.points],
    }


def read(path: Path) -> Calibration:
    """The content of a file that `nezha calibrate` wrote. Raises PlanError where it is none."""
    content = read_json(path)
    if not isinstance(content, dict) or content.get("kind") != KIND or content.get("version") != VERSION:
        raise PlanError(f"{path} is no file of nezha calibrate (version {VERSION})")
    fields = _Fields(path, content)
    rails = [_Fields(path, each, f"rails[{i}].") for i, each in enumerate(fields.rows("rails"))]
    facts = [RailFacts(each.text("name"), None if each.value("nominal_gbps") is None else
                       each.above("nominal_gbps") * 1e9 / 8, each.number("burst_bytes"),
                       each.number("segment_bytes")) for each in rails]
    costs = [RailCosts(each.above("rate_gbps") * 1e9 / 8, each.number("latency_us") / 1e6,
                       each.number("gap_us") / 1e6, each.number("fit_error")) for each in rails]
    points = [_Fields(path, each, f"points[{i}].") for i, each in enumerate(fields.rows("points"))]
    split, by_dtype = fields.value("split_cost_us"), content.get("adds_by_dtype") or {}
    adds = _Fields(path, by_dtype, "adds_by_dtype.")
    found = Calibration(
        facts, costs, fields.number("gap_us") / 1e6, 1e9 * fields.above("adds_gb_per_s"),
        {dtype: 1e9 * adds.above(dtype) for dtype in by_dtype}, fields.value("rate_lost"),
        None if split is None else fields.number("split_cost_us") / 1e6,
        [Point(int(each.above("hosts")), tuple(int(rail) for rail in each.rows("rails")),
               each.text("collective"), each.text("algorithm"), int(each.number("size")),
               each.above("time_us") / 1e6) for each in points], _inside(path, content),
        content.get("ports"))
    try:
        found.cluster(2 if found.ports is None else len(found.ports))
    except (TypeError, ValueError) as error:
        raise PlanError(f"{path}: {error}; measure again with nezha calibrate") from None
    return found


def _inside(path: Path, content: Dict[str, Any]) -> Optional[Inside]:
    given = content.get("inside")
    if given is None:
        return None
    fields = _Fields(path, given, "inside.")
    return Inside(1e9 * fields.above("rate_gb_per_s"), fields.above("latency_us") / 1e6,
                  int(fields.above("ranks")))


class _Fields:
    """The fields of an object in the file, each refused with its place, its value and what it must be."""

    def __init__(self, path: Path, content: Any, place: str = "") -> None:
        self._path, self._place = path, place
        self._content = content if isinstance(content, dict) else {}

    def _refused(self, name: str, allowed: str) -> PlanError:
        value = repr(self._content[name]) if name in self._content else "missing"
        return PlanError(f"{self._path}: {self._place}{name} is {value[:80]}, and must be {allowed}; "
                         "measure again with nezha calibrate")

    def value(self, name: str) -> Any:
        """Whatever it is."""
        if name not in self._content:
            raise self._refused(name, "there (null: not measured)")
        return self._content[name]

    def number(self, name: str) -> float:
        """0 or more."""
        value = self._content.get(name)
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value < 1e18:
            raise self._refused(name, "a number, 0 or more")
        return float(value)

    def above(self, name: str) -> float:
        """Above 0."""
        value = self._content.get(name)
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value < 1e18:
            raise self._refused(name, "a number above 0")
        return float(value)

    def text(self, name: str) -> str:
        """A name."""
        value = self._content.get(name)
        if not isinstance(value, str) or not value:
            raise self._refused(name, "a name")
        return value

    def rows(self, name: str) -> List[Any]:
        """A list that is not empty."""
        value = self._content.get(name)
        if not isinstance(value, list) or not value:
            raise self._refused(name, "a list with one entry at least")
        return value
