"""One operation on a cluster: the library plans it, its balancer picks the rails, the engine runs it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Dict, List, Optional, Tuple

import numpy as np

from nezha_tools.cli.errors import PlanError
from nezha_tools.cli.validation import refused
from ..plan.library import divide
from nezha_tools.cli.units import gbps
from . import flows, forms
from .binders import Binders
from .cluster import Cluster
from .engine import Engine, Outcome
from .flows import Flows
from .waves import Plan, plan

SIZE_MAX = 1 << 40
RECORDED_MAX = 64  # ranks of a timeline


@dataclass(frozen=True)
class Question:
    """What is to be simulated. size: bytes of the whole vector; nominal: bytes per second that
    the rails are advertised with, by which the library chooses its algorithm (None: the real ones);
    hierarchy: as the library's option of that name, whether it knows which ranks share a host."""

    collective: str
    size: int
    algorithm: str = "auto"
    root: int = 0
    dtype: str = "float32"
    nominal: Optional[Tuple[float, ...]] = None
    hierarchy: bool = True


@dataclass(frozen=True)
class Answer:
    """The outcome with what was chosen. why: the balancer's sentence. is_rough: messages of several waves
    may have wanted one uplink or port, and were computed wave by wave all the same."""

    question: Question
    plan: Plan
    why: str
    outcome: Outcome
    is_rough: bool


def simulate(cluster: Cluster, question: Question, multiply: bool = True, record: bool = False,
             binders: Optional[Binders] = None) -> Answer:
    """Runs one operation on all hosts of `cluster`.

    multiply: compute waves that are alike once (engine.py); record: keep every transfer, up to 64 hosts;
    binders: who picks the rails, all of which may then be used. Where several messages may want one
    uplink or port while hosts go on at speeds of their own, they are run in the order of time (flows.py),
    else wave by wave (engine.py).
    """
    if not 0 <= question.size <= SIZE_MAX:
        raise refused("size", question.size, f"from 0 to {SIZE_MAX} bytes")
    if not 0 <= question.root < cluster.ranks:
        raise refused("root", question.root, f"a rank from 0 to {cluster.ranks - 1}")
    if record and cluster.ranks > RECORDED_MAX:
        raise PlanError(f"ranks {cluster.ranks}: a timeline has at most {RECORDED_MAX}")
    made = plan(_request(cluster, question))
    rails, why, is_divided = _rails(cluster, question.size)
    if binders is not None:
        rails = list(range(cluster.rails))
    form = forms.form(question.collective, made.algorithm, cluster.ranks, question.root, cluster.layout)
    count = 0 if question.collective == "barrier" else question.size // made.element_bytes
    drifts = binders is None and flows.are_needed(cluster, form)
    is_rough = drifts and not flows.fit(cluster, form, made)
    if drifts and not is_rough:
        outcome = Flows(cluster, form, made, count, rails, record).run()
    else:
        outcome = Engine(cluster, form, made, count, rails, multiply, record, binders).run()
    if len(rails) > 1 and is_divided and cluster.split_cost_s is not None:
        outcome.total_s += cluster.split_cost_s
    return Answer(question, made, why, outcome, is_rough)


def _request(cluster: Cluster, question: Question) -> Dict[str, Any]:
    rates = np.array(question.nominal or cluster.rate.mean(axis=0))
    request = {"collective": question.collective, "bytes": question.size, "world_size": cluster.ranks,
               "algorithm": question.algorithm, "dtype": question.dtype, "rails": cluster.rails,
               "rate_gbps": gbps(float(rates.mean())), "fastest_gbps": gbps(float(rates.max())),
               "root": question.root}
    if cluster.layout.is_mixed and question.hierarchy:
        inside_rate, inside_latency_s = cluster.inside
        request.update(host_of=cluster.layout.host_of.tolist(), inside_gb_per_s=inside_rate / 1e9,
                       inside_latency_us=1e6 * inside_latency_s)
    return request


def _rails(cluster: Cluster, size: int) -> Tuple[List[int], str, bool]:
    """The rails that an operation of this size may use, why, and whether it is divided: as the shipped
    policy says."""
    every = list(range(cluster.rails))
    if cluster.rails == 1:
        return every, "there is one rail", False
    lost = cluster.rate_lost.tolist() if cluster.rate_lost.any() else None
    division = divide(size, cluster.slowest(every), cluster.split_cost_s, lost)
    if division.quickest:
        return every, division.why, False
    if not division.splits:
        return [division.single_rail], division.why, False
    # Without measured interference no rail is left out: all take what they can.
    measured = lost is not None or cluster.split_cost_s is not None
    return (division.used if measured else every), division.why, True
