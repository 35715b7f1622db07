"""Times and shares by combination, number of nodes and size: what Figures 5 and 7 are made of. Pure."""

from __future__ import annotations

from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple

from nezha_tools.bench.formulas import bus_factor
from .combinations import ALL, Combination
from .jobs import Job

ENTERED = 0.05  # of the data, on all networks except the busiest one: the second one has entered
GAINED = 0.05  # of the speed of the best single network: the combination is faster


class Curves:
    """The rows of all curves that were measured."""

    def __init__(self, results: Mapping[str, Dict[str, Any]], nodes: Sequence[int]) -> None:
        """results: by Job.key; nodes: those to look at."""
        self.nodes = list(nodes)
        self._rows: Dict[Tuple[int, str], List[Dict[str, Any]]] = {}
        for count in nodes:
            for each in ALL:
                found = results.get(Job("curve", count, each).key)
                if found is not None:
                    self._rows[count, each.key] = found["rows"]

    def combinations(self) -> List[Combination]:
        """Those with a curve."""
        return [each for each in ALL if any(key == each.key for _, key in self._rows)]

    def sizes(self, nodes: int, key: str) -> List[int]:
        """Bytes, ascending; empty where there is no curve."""
        return [row["size"] for row in self._rows.get((nodes, key), [])]

    def time(self, nodes: int, key: str, size: int) -> Optional[float]:
        """Microseconds of an operation; None where it was not measured."""
        row = self._row(nodes, key, size)
        return None if row is None else float(row["time_us"])

    def gain(self, nodes: int, key: str, size: int) -> Optional[float]:
        """By which part the combination is faster than the best of its networks alone: 0.5 is one and a
        half times its speed. None where one of them was not measured."""
        mine = self.time(nodes, key, size)
        single = [self.time(nodes, letter, size) for letter in sorted(set(key))]
        known = [each for each in single if each is not None]
        return min(known) / mine - 1 if mine and len(known) == len(single) else None

    def shares(self, nodes: int, key: str, size: int) -> Optional[List[float]]:
        """The part of the data that each network of the combination carried, in the order of its letters.

        Computed from bytes: what goes through an aggregation node crosses a wire once each way, and the
        rest bus factor times.
        """
        row = self._row(nodes, key, size)
        if row is None:
            return None
        data = [0.0] * len(key)
        for rail in row["rails"]:
            place = _place(rail["name"])
            if place is not None and place < len(key):
                crossings = 1.0 if rail["transport"] == "agg" else bus_factor("all_reduce", nodes)
                data[place] += rail["bytes"] / crossings
        total = sum(data)
        return [each / total for each in data] if total else None

    def through_node(self, nodes: int, key: str, size: int) -> Optional[float]:
        """The part of all bytes sent that went to an aggregation node."""
        row = self._row(nodes, key, size)
        if row is None:
            return None
        return float(sum(rail["share"] for rail in row["rails"] if rail["transport"] == "agg"))

    def enters(self, nodes: int, key: str) -> Optional[int]:
        """The smallest size from which on a second network carries data at every size; None for no
        size."""
        return self._from(nodes, key, lambda size: self._second(nodes, key, size) >= ENTERED)

    def gains_from(self, nodes: int, key: str) -> Optional[int]:
        """The smallest size from which on the combination is faster at every size: the border between the
        paper's cold and hot start. None for no size."""
        return self._from(nodes, key, lambda size: (self.gain(nodes, key, size) or 0.0) >= GAINED)

    def hot_gains(self, nodes: int, key: str) -> List[float]:
        """The gains of all sizes from gains_from() on; empty where there are none."""
        border = self.gains_from(nodes, key)
        if border is None:
            return []
        found = [self.gain(nodes, key, size) for size in self.sizes(nodes, key) if size >= border]
        return [each for each in found if each is not None]

    def growth(self, key: str, less: int, more: int, least: int) -> List[float]:
        """By which part times grow from `less` to `more` nodes, for each size from `least` bytes on."""
        found = []
        for size in self.sizes(more, key):
            before, after = self.time(less, key, size), self.time(more, key, size)
            if size >= least and before and after:
                found.append(after / before - 1)
        return found

    def _second(self, nodes: int, key: str, size: int) -> float:
        shares = self.shares(nodes, key, size)
        return 1 - max(shares) if shares else 0.0

    def _from(self, nodes: int, key: str, holds: Any) -> Optional[int]:
        border = None
        for size in reversed(self.sizes(nodes, key)):
            if not holds(size):
                break
            border = size
        return border

    def _row(self, nodes: int, key: str, size: int) -> Optional[Dict[str, Any]]:
        rows = self._rows.get((nodes, key), [])
        return next((row for row in rows if row["size"] == size), None)


def _place(name: str) -> Optional[int]:
    """The number of the rail in a lab's names, `eth1` or `eth1 agg`; None for other names."""
    digits = name.partition(" ")[0].replace("eth", "", 1)
    return int(digits) if digits.isdecimal() else None


def percent_range(values: Sequence[float]) -> str:
    """`31 to 92 %`; `nothing` where there are no values."""
    if not values:
        return "nothing"
    low, high = round(100 * min(values)), round(100 * max(values))
    return f"{low} %" if low == high else f"{low} to {high} %"


def mean(values: Sequence[float]) -> Optional[float]:
    """None of nothing."""
    return sum(values) / len(values) if values else None
