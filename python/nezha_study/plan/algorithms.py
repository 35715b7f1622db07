"""`nezha plan algorithm`: every algorithm of the catalog by size, where they cross, and the choice.
Pure.

An operation uses the rails that the balancer gives it. Of several rails that end together
(water-filling), a message of s bytes takes (s + sum a_i r_i) / sum r_i with latencies a_i and rates
r_i: the catalog is asked with the sum of the rates and the mean of the latencies weighted by rate.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Dict, List, Optional, Sequence, Tuple

from nezha_tools.bench.interference_model import LOST_MAX
from nezha_tools.cli.errors import PlanError
from nezha_tools.cli.validation import whole
from .library import RANKS_MAX, Comparison, Division, Rails, compare, divide

_FINE = 1.01  # crossovers are found to one percent


@dataclass(frozen=True)
class Question:
    """What is compared. rails: bytes per second and latency in seconds of each.

    split_cost_s and rate_lost as in library.divide; adds: bytes per second of a rank, None: the library's
    constant. calibrated: the library begins with these costs (its option calibration_file).
    """

    collective: str
    nodes: int
    rails: Rails
    split_cost_s: Optional[float] = None
    rate_lost: Optional[Sequence[Sequence[float]]] = None
    adds: Optional[float] = None
    calibrated: bool = False

    def __post_init__(self) -> None:
        whole("nodes", self.nodes, 2, RANKS_MAX)


@dataclass(frozen=True)
class Answer:
    """One size: the division among rails, the costs with the latencies given, and the two choices.

    chosen: what the library runs; it chooses with the sum of the rates (up to 32 KiB, and where runs of
    blocks are one message, with that of the fastest rail, which carries all of it) and a constant
    latency, or with the mean of the latencies where it has read a calibration. cheapest: the least of
    what it may choose, with the latencies given.
    """

    size: int
    division: Division
    comparison: Comparison
    chosen: str

    @property
    def cheapest(self) -> str:
        """The name of the algorithm that the library chooses."""
        return self.comparison.chosen

    @property
    def split_s(self) -> float:
        """What using several rails adds to any of the costs."""
        return self.division.split_cost_s if len(self.division.used) > 1 else 0.0

    def time_s(self, algorithm: str) -> float:
        """Seconds of one algorithm on the rails that the operation uses."""
        return self.comparison.of(algorithm).total_s + self.split_s

    @property
    def lost(self) -> float:
        """By how much the library's choice is slower than the cheapest: 0.1 is 10 %."""
        return self.time_s(self.chosen) / self.time_s(self.cheapest) - 1


def answer(question: Question, size: int) -> Answer:
    """Costs and choices at `size` bytes. Raises PlanError for a collective that does not exist."""
    division = divide(size, question.rails, question.split_cost_s, question.rate_lost)
    rate, latency_s = together(question, division.used)
    comparison = compare(question.collective, size, question.nodes, rate, latency_s, len(division.used),
                         question.adds)
    whole_rate = sum(each for each, _ in question.rails)
    mean_s = sum(each * late for each, late in question.rails) / whole_rate
    shipped = compare(question.collective, size, question.nodes, whole_rate,
                      mean_s if question.calibrated else None, len(question.rails),
                      question.adds if question.calibrated else None,
                      fastest=max(each for each, _ in question.rails))
    return Answer(size, division, comparison, shipped.chosen)


def together(question: Question, used: Sequence[int]) -> Tuple[float, float]:
    """(bytes per second, seconds) of the rails of `used` as one; each loses to the others what it
    loses."""
    lost = question.rate_lost
    parts = [sum(lost[i][j] for j in used if j != i) if lost else 0.0 for i in used]
    rates = [question.rails[i][0] * (1 - min(LOST_MAX, part)) for i, part in zip(used, parts)]
    rate = sum(rates)
    return rate, sum(each * question.rails[i][1] for each, i in zip(rates, used)) / rate


@dataclass(frozen=True)
class Crossing:
    """Above `size` bytes `what` ("algorithm", "cheapest" or "rails") is `after` and no longer
    `before`."""

    size: int
    what: str
    before: str
    after: str


def crossings(question: Question, first: int, last: int) -> List[Crossing]:
    """All changes between two sizes: of the library's choice, of the cheapest algorithm, of the
    rails."""
    if first >= last:
        raise PlanError(f"sizes {first} to {last}: the first must be smaller than the last")
    found = []
    size = first
    while size < last:
        following = min(2 * size, last)
        for what in ("algorithm", "cheapest", "rails"):
            low, high = size, following
            before, after = _label(question, low, what), _label(question, high, what)
            if before == after:
                continue
            while high > low * _FINE and high - low > 1:
                middle = (low + high) // 2
                if _label(question, middle, what) == before:
                    low = middle
                else:
                    high, after = middle, _label(question, middle, what)
            found.append(Crossing(high, what, before, after))
        size = following
    return sorted(found, key=lambda each: each.size)


def _label(question: Question, size: int, what: str) -> str:
    at = answer(question, size)
    if what == "rails":
        return rails_text(at.division)
    return at.chosen if what == "algorithm" else at.cheapest


def rails_text(division: Division) -> str:
    """`rail 0` or `rails 0+1`."""
    used = division.used
    if len(used) == 1:
        return f"rail {used[0]}"
    return "rails " + "+".join(str(rail) for rail in used)


def row(at: Answer) -> Dict[str, Any]:
    """The answer as JSON: microseconds, shares by rail."""
    shares = [0.0] * len(at.division.shares)
    for rail in at.division.used:
        shares[rail] = at.division.shares[rail] if len(at.division.used) > 1 else 1.0
    return {
        "size": at.size,
        "costs": [{
            "algorithm": cost.algorithm, "time_us": 1e6 * (cost.total_s + at.split_s),
            "latency_us": 1e6 * cost.latency_s, "transfer_us": 1e6 * cost.transfer_s,
            "reduce_us": 1e6 * cost.reduce_s, "split_us": 1e6 * at.split_s, "messages": cost.messages,
            "bytes_factor": cost.bytes_factor, "left_out": cost.left_out,
        } for cost in at.comparison.costs],
        "chosen": at.chosen, "chosen_us": 1e6 * at.time_s(at.chosen),
        "cheapest": at.cheapest, "cheapest_us": 1e6 * at.time_s(at.cheapest),
        "shares": shares, "balancer": at.division.why,
    }


def document(question: Question, answers: Sequence[Answer],
             crossed: Sequence[Crossing]) -> Dict[str, Any]:
    """Everything as JSON, with what is assumed."""
    return {
        "collective": question.collective,
        "nodes": question.nodes,
        "rails": [{"rate_gbps": rate * 8 / 1e9, "latency_us": 1e6 * latency_s}
                  for rate, latency_s in question.rails],
        "rows": [row(each) for each in answers],
        "crossings": [{
            "size": each.size, "what": each.what, "before": each.before, "after": each.after
        } for each in crossed],
        "assumptions": [
            "rates are reached in full, and all hosts are alike and equally far",
            "a host adds 4 GB/s (the library's constant)" if question.adds is None else
            f"a host adds {question.adds / 1e9:.3g} GB/s (as calibrated)",
            "the library chooses its algorithm by these costs, if its option calibration_file names the "
            "calibration" if question.calibrated else
            "the library chooses its algorithm with the sum of the rates (up to 32K, and for runs "
            "of blocks, with that of the fastest rail) and 16 us a message, whatever the latency is",
            "interference: " + ("as given" if question.rate_lost else "none given, so rails lose "
                                                                      "nothing"),
        ],
    }
