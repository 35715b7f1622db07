"""What the study's runs say about each statement of the source: its number, ours, whether they agree."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Dict, List, Mapping, Sequence

from .case import Case
from .case_runs import Outcome

KIB = 1 << 10
SATURATED = 1.0  # this load is more than any policy carries
SIZES_KIB = (4, 8, 16, 32, 64)
_OF_LOADS = ("load_4k", "load_64k")
_MEET = 5.0  # percent: as far apart as two curves that meet may be


@dataclass(frozen=True)
class Lookup:
    """The runs of each experiment, and what they measured."""

    cases: Mapping[str, Sequence[Case]]
    outcomes: Mapping[Case, Outcome]

    def at(self, name: str, policy: str, wanted: Mapping[str, Any]) -> Outcome:
        """The one run of an experiment with these values; not striped where that is not among them."""
        values = {"policy": policy, "striped": False, **wanted}
        for case in self.cases[name]:
            if all(getattr(case, key) == value for key, value in values.items()):
                return self.outcomes[case]
        raise KeyError((name, values))

    def gain(self, name: str, one: str, other: str, wanted: Mapping[str, Any]) -> float:
        """How much more the first policy accepts than the second, percent."""
        return 100 * (self.at(name, one, wanted).accepted / self.at(name, other, wanted).accepted - 1)

    def most_gain(self, one: str, other: str) -> float:
        """The largest such gain over all loads and sizes of 128 hosts, striped or not."""
        shared = {(name, case.load, case.striped) for name in _OF_LOADS for case in self.cases[name]
                  if case.policy == one}
        return max(self.gain(name, one, other, {"load": load, "striped": striped})
                   for name, load, striped in shared)

    def of_striping(self, policy: str) -> float:
        """What striping adds to what is accepted when saturated, percent."""
        striped, whole = (self.at("load_64k", policy, {"load": SATURATED, "striped": each}).accepted
                          for each in (True, False))
        return 100 * (striped / whole - 1)


def findings(runs: Lookup, source: Mapping[str, Any]) -> List[Dict[str, Any]]:
    """A row for each statement that a simulation can answer."""
    return [*_of_dynamic(runs, source), *_of_striping(runs), *_of_static(runs), *_of_hybrid(runs)]


def _row(what: str, theirs: Any, here: Any, agrees: bool) -> Dict[str, Any]:
    return {"what": what, "source": theirs, "here": here, "same_sign": bool(agrees)}


def _ahead(what: str, theirs: Any, gain: float) -> Dict[str, Any]:
    return _row(what, theirs, round(gain, 1), gain > 0)


def _of_dynamic(runs: Lookup, source: Mapping[str, Any]) -> List[Dict[str, Any]]:
    top = {"load": SATURATED}
    by_size = {f"{kib}K": round(runs.gain("size", "dynamic", "local_dynamic", {"means": (kib * KIB,)}), 1)
               for kib in SIZES_KIB}
    rates = [runs.at("rails", "dynamic", {"rails": rails}).rate_gb_s for rails in (1, 8)]
    return [
        _ahead("dynamic over local_dynamic, at most (%)",
               source["dynamic_over_local_dynamic_percent"]["value"],
               runs.most_gain("dynamic", "local_dynamic")),
        _ahead("dynamic over round_robin, at most (%)",
               source["dynamic_over_round_robin_percent"]["value"],
               runs.most_gain("dynamic", "round_robin")),
        _ahead("local_dynamic over round_robin, saturated, 64 KB (%)", "ahead",
               runs.gain("load_64k", "local_dynamic", "round_robin", top)),
        _ahead("random over round_robin, saturated, 64 KB (%)", "ahead (randomized, not round-robin)",
               runs.gain("load_64k", "random", "round_robin", top)),
        _row("dynamic over local_dynamic by message size, saturated (%)", "grows with the size", by_size,
             by_size["4K"] < by_size["16K"] < by_size["64K"]),
        _row("rate of dynamic on 8 rails over that on 1", "scales with the rails",
             round(rates[1] / rates[0], 2), rates[1] > 6 * rates[0]),
    ]


def _of_striping(runs: Lookup) -> List[Dict[str, Any]]:
    return [_row(f"{policy} striped over not striped, saturated, 64 KB (%)", "they meet",
                 round(runs.of_striping(policy), 1), abs(runs.of_striping(policy)) < _MEET)
            for policy in ("dynamic", "local_dynamic", "round_robin")]


def _of_static(runs: Lookup) -> List[Dict[str, Any]]:
    return [_ahead(f"{policy} over static, 7 rails, saturated (%)", "static behind",
                   runs.gain("static", policy, "static", {"load": SATURATED}))
            for policy in ("dynamic", "local_dynamic", "round_robin")]


def _of_hybrid(runs: Lookup) -> List[Dict[str, Any]]:
    rows = [_ahead(f"hybrid over dynamic, {what}, saturated{', striped' if striped else ''} (%)", "ahead",
                   runs.gain(name, "hybrid", "dynamic", {"load": SATURATED, "striped": striped}))
            for name, what in (("load_4k", "4 KB"), ("hybrid", "32 KB"), ("mixed", "2 and 32 KB"))
            for striped in (False, True)]
    for name, what in (("hybrid", "32 KB"), ("mixed", "2 and 32 KB")):
        short = {policy: round(runs.at(name, policy, {"load": 0.5}).short_us, 1)
                 for policy in ("local_dynamic", "dynamic", "hybrid")}
        rows.append(_row(f"latency of messages below 8 KB, {what}, load 0.5 (us)", "hybrid lowest", short,
                         short["hybrid"] < min(short["local_dynamic"], short["dynamic"])))
    return rows
