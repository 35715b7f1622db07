"""What the library itself answers: the costs of its catalog, its choice, its balancer's division.

The formulas are in src/schedule and src/rails/policies and nowhere else; these functions ask the
native module, so a plan is made of what runs. Pure. Errors: PlanError with the library's sentence.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Dict, List, Optional, Sequence, Tuple

from nezha_tools.cli.errors import PlanError
from nezha_tools.cli.units import gbps

Rails = Sequence[Tuple[float, float]]  # bytes per second, seconds of latency
RANKS_MAX = 16384
# A processor adds 4 GB/s (the library's constant); accelerators add at the speed of their memory.
ADDS_FOR_FREE = 1e15


@dataclass(frozen=True)
class Cost:
    """What one algorithm costs, in seconds; `left_out` says why the library never chooses it by
    itself."""

    algorithm: str
    summary: str
    latency_s: float
    transfer_s: float
    reduce_s: float
    messages: float
    bytes_factor: float
    left_out: str

    @property
    def total_s(self) -> float:
        """All parts one after the other."""
        return self.latency_s + self.transfer_s + self.reduce_s


@dataclass(frozen=True)
class Comparison:
    """Every algorithm of a collective, and the one that the library chooses with these constants."""

    costs: List[Cost]
    chosen: str

    def of(self, algorithm: str) -> Cost:
        """The row of one algorithm."""
        return next(cost for cost in self.costs if cost.algorithm == algorithm)

    @property
    def best(self) -> Cost:
        """The row of the choice."""
        return self.of(self.chosen)


@dataclass(frozen=True)
class Division:
    """How the balancer divides an operation among rails.

    shares: of water-filling, all used rails end together; time_s with them; single_rail: the
    quickest one; splits: whether the shipped policy divides at all (it wants 10 %); quickest: it is too
    short for that, and each transfer goes where it takes the least time.
    For two rails: threshold_bytes, Eq. 1, and slower_helps_below, how many times slower the slower
    one may be; None: no limit.
    """

    shares: List[float]
    time_s: float
    split_cost_s: float
    single_rail: int
    splits: bool
    quickest: bool
    policy: str
    why: str
    threshold_bytes: Optional[float]
    slower_helps_below: Optional[float]

    @property
    def used(self) -> List[int]:
        """The rails that carry something: those with a share, or the quickest where it stays whole."""
        if not self.splits:
            return [self.single_rail]
        return [rail for rail, share in enumerate(self.shares) if share > 0]


def ask(what: str, request: Dict[str, Any]) -> Dict[str, Any]:
    """The library's answer to a question. Raises PlanError."""
    from nezha import errors, queries

    try:
        return dict(queries.ask(what, request))
    except errors.Error as error:
        raise PlanError(str(error)) from None


def compare(collective: str,
            size: int,
            ranks: int,
            rate: float,
            latency_s: Optional[float],
            rails: int = 1,
            reduce_rate: Optional[float] = None,
            fastest: Optional[float] = None) -> Comparison:
    """Costs of `size` bytes over `ranks` ranks.

    rate: bytes per second of all rails together. latency_s: of a message; None: the constant that
    the library chooses with. reduce_rate: bytes per second that a rank adds; None: the library's
    constant. fastest: bytes per second of the fastest rail, by which operations of up to 32 KiB, which
    stay whole, are costed; None: rails are alike.
    """
    request: Dict[str, Any] = {
        "collective": collective, "bytes": size, "world_size": ranks, "rails": rails,
        "rate_gbps": gbps(rate) / rails
    }
    if latency_s is not None:
        request["latency_us"] = latency_s * 1e6
    if fastest is not None:
        request["fastest_gbps"] = gbps(fastest)
    if reduce_rate is not None:
        request["reduce_gb_per_s"] = reduce_rate / 1e9
    answer = ask("explain", request)
    costs = [Cost(row["algorithm"], row["summary"], row["latency_us"] / 1e6, row["transfer_us"] / 1e6,
                  row["reduce_us"] / 1e6, row["steps"], row["bytes_factor"], row["left_out"])
             for row in answer["candidates"]]
    return Comparison(costs, answer["algorithm"])


def divide(size: int, rails: Rails, split_cost_s: Optional[float] = None,
           rate_lost: Optional[Sequence[Sequence[float]]] = None) -> Division:
    """How `size` bytes are divided among `rails`.

    split_cost_s: what using several rails costs more; None: the library's guess. rate_lost[i][j]:
    the part of its rate that rail i loses while rail j runs, too; None: nothing.
    """
    request: Dict[str, Any] = {
        "bytes": size, "rails": [{"rate_gbps": gbps(rate), "latency_us": latency_s * 1e6}
                                 for rate, latency_s in rails]}
    if split_cost_s is not None:
        request["split_cost_us"] = split_cost_s * 1e6
    if rate_lost is not None:
        request["rate_lost"] = rate_lost
    answer = ask("divide", request)
    return Division(
        answer["shares"], answer["time_us"] / 1e6, answer["split_cost_us"] / 1e6, answer["single_rail"],
        answer["splits"], answer["quickest"], answer["policy"], answer["why"],
        answer.get("threshold_bytes"), answer.get("slower_helps_below"))
