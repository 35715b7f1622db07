"""What the balancer converges to, and in how many operations: the shipped policy `table` in the engine.

Every operation runs with the shares that the policy decided; what rails carried and how long they were
needed goes back to it, through the native module (nezha_query "learn": the policy and the monitors that
ship). Hosts are alike, so the table of the host that sends most stands for all.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from statistics import median
from typing import Any, Callable, Dict, List, Optional, Sequence

from nezha_tools.cli.progress import Step
from nezha_tools.cli.sizes import format_size
from nezha_tools.cli.errors import PlanError
from nezha_tools.cli.validation import refused, whole
from ..plan.library import ask, divide
from nezha_tools.cli.units import gbps
from . import results
from .binders import Binders
from .cluster import Cluster, with_rails
from .operation import Answer, Question, simulate

OPERATIONS_MAX = 400
_STEADY = 20  # operations in a row with the same shares
_SAME = 0.01  # shares that differ by no more are the same
_WHOLE_MAX = 64 * 1024  # bytes of the longest operation that the policy never divides
_COLD, _HOT = "one rail", "all rails"


@dataclass(frozen=True)
class Converged:
    """shares: of the rails in the end; operations: after how many they stayed (None: the policy still
    searched when it was stopped); state: "one rail" or "all rails"; time_s, first_s: of an operation
    then, and of the first; history: shares of every operation."""

    shares: List[float]
    operations: Optional[int]
    state: str
    time_s: float
    first_s: float
    algorithm: str
    history: List[List[float]]


def converge(cluster: Cluster, question: Question, advertised: Sequence[float], most: int,
             tick: Callable[[], None] = lambda: None) -> Converged:
    """Runs all_reduces of one size until the shares stay. advertised: bytes per second that the rails
    say they have, by which the policy begins."""
    if question.size <= _WHOLE_MAX:
        raise refused("size", question.size, f"above {_WHOLE_MAX} bytes: shorter operations are not "
                      "divided")
    request = _request(cluster, question, advertised)
    binders = Binders(cluster.rails)
    done: List[Dict[str, Any]] = []
    history: List[List[float]] = []
    times: List[float] = []
    found: Optional[Answer] = None
    while True:
        answer = ask("learn", {**request, "operations": done})
        row = answer["table"]["rows"][0]
        searching = row["state"] == "singles" or (row["state"] == "all" and not row["settled"])
        if len(done) == most or (_is_steady(history) and not searching):
            break
        binders.begin(answer["shares"], answer["probe"])
        found = simulate(cluster, question, binders=binders)
        history.append(answer["shares"])
        times.append(found.outcome.total_s)
        done.append(_sample(found))
        tick()
    last = history[-1]
    changed = [number for number, shares in enumerate(history, 1) if not _same(shares, last)]
    assert found is not None
    return Converged(last, None if searching else changed[-1] if changed else 0,
                     _COLD if row["state"] == "single" else _HOT, median(times[-10:]), times[0],
                     found.plan.algorithm, history)


def _request(cluster: Cluster, question: Question, advertised: Sequence[float]) -> Dict[str, Any]:
    request: Dict[str, Any] = {
        "policy": "table", "bytes": question.size,
        "rails": [{"rate_gbps": gbps(rate), "latency_us": 1e6 * float(late)}
                  for rate, late in zip(advertised, cluster.latency_s)]}
    if cluster.split_cost_s is not None:
        request["split_cost_us"] = 1e6 * cluster.split_cost_s
    if cluster.rate_lost.any():
        request["rate_lost"] = cluster.rate_lost.tolist()
    return request


def _sample(found: Answer) -> Dict[str, Any]:
    """What the policy is told of an operation, of the host that sends most."""
    outcome = found.outcome
    host = int(outcome.sent.sum(axis=1).argmax())
    return {"total_us": 1e6 * outcome.total_s, "rails": [
        {"bytes": int(sent), "time_us": 1e6 * float(timed), "busy_us": 1e6 * float(busy)}
        for sent, timed, busy in zip(outcome.sent[host], outcome.timed_s[host], outcome.busy_s[host])]}


def _is_steady(history: Sequence[Sequence[float]]) -> bool:
    return len(history) >= _STEADY and all(_same(each, history[-1]) for each in history[-_STEADY:])


def _same(shares: Sequence[float], others: Sequence[float]) -> bool:
    return all(abs(one - other) <= _SAME for one, other in zip(shares, others))


def run(hosts: Sequence[int], sizes: Sequence[int], make: Callable[[int], Cluster],
        advertised: Optional[Sequence[float]], algorithm: str, most: int, step: Step) -> Dict[str, Any]:
    """Every count of hosts and size: what policy `table` converges to, what `pull` makes of the same
    operation once it knows the rates, and the quickest rail alone."""
    whole("operations", most, _STEADY, OPERATIONS_MAX)
    rows = []
    for count in hosts:
        if count < 2:
            raise refused("nodes", count, "2 or more")
        cluster = make(count)
        given = list(advertised or [rate for rate, _ in cluster.slowest(range(cluster.rails))])
        if len(given) != cluster.rails:
            raise PlanError(f"advertised: {len(given)} rates, and {cluster.rails} rails; it must be one "
                            "for each")
        if cluster.rails < 2:
            raise PlanError("rates: 1 rail; it must be two or more for the balancer to decide")
        for size in sizes:
            advance: Callable[[Any], None] = step(f"{count} hosts, {format_size(size)}", most)
            question = Question("all_reduce", size, algorithm)
            found = converge(cluster, question, given, most, lambda: advance(None))
            for _ in range(most - len(found.history)):
                advance(None)
            rows.append(_row(cluster, question, found))
    return {"rows": rows, "advertised_gbps": [gbps(each) for each in given], "assumptions": [
        "hosts are alike and nothing disturbs them: the table of the host that sends most stands for all",
        "policy pull, in the columns beside, knows the rates already",
        "what single transfers show of a rail before its monitor knows it is left out",
        *results.ASSUMED]}


def _row(cluster: Cluster, question: Question, found: Converged) -> Dict[str, Any]:
    """The row as JSON; the policy's search beside what else could be had."""
    pull = simulate(cluster, question)
    same = replace(question, algorithm=found.algorithm)
    alone = [simulate(with_rails(cluster, [rail]), same).outcome.total_s for rail in range(cluster.rails)]
    together = divide(question.size, cluster.slowest(range(cluster.rails)), cluster.split_cost_s,
                      cluster.rate_lost.tolist() if cluster.rate_lost.any() else None)
    return {
        "hosts": cluster.hosts, "size": question.size, "algorithm": found.algorithm,
        "state": found.state, "shares": found.shares, "operations": found.operations,
        "operations_run": len(found.history), "first_us": 1e6 * found.first_s,
        "time_us": 1e6 * found.time_s,
        "pull_shares": [rail["share"] for rail in results.rails(cluster, pull)],
        "pull_us": 1e6 * pull.outcome.total_s, "equation_shares": together.shares,
        "alone_us": [1e6 * each for each in alone], "history": found.history,
    }
