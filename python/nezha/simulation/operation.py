"""One operation on a cluster: the library plans it, its balancer picks the rails, the engine runs it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Dict, List, Optional, Tuple

from ..planning.errors import PlanError, refused
from ..planning.library import divide
from ..planning.units import gbps
from . import forms, shipped
from .binders import Binders
from .cluster import Cluster
from .engine import Engine, Outcome
from .waves import Form, Plan, plan

UNDIVIDED_MAX = 64 * 1024  # up to here every transfer goes where it takes the least time
SIZE_MAX = 1 << 40
RECORDED_MAX = 64  # hosts of a timeline


@dataclass(frozen=True)
class Question:
    """What is to be simulated. size: bytes of the whole vector; nominal: bytes per second that every
    rail is advertised with, which the library chooses its algorithm by (None: the real rates)."""

    collective: str
    size: int
    algorithm: str = "auto"
    root: int = 0
    dtype: str = "float32"
    nominal: Optional[float] = None


@dataclass(frozen=True)
class Answer:
    """The outcome with what was chosen. why: the balancer's sentence."""

    question: Question
    plan: Plan
    why: str
    outcome: Outcome


def simulate(cluster: Cluster, question: Question, multiply: bool = True, record: bool = False,
             from_shipped: bool = False, binders: Optional[Binders] = None) -> Answer:
    """Runs one operation on all hosts of `cluster`.

    multiply: compute waves that are alike once (engine.py); record: keep every transfer, up to 64 hosts;
    from_shipped: take the schedules from the native module rank by rank, not their vector form; binders:
    who picks the rails, all of which may then be used.
    """
    if not 0 <= question.size <= SIZE_MAX:
        raise refused("size", question.size, f"from 0 to {SIZE_MAX} bytes")
    if not 0 <= question.root < cluster.hosts:
        raise refused("root", question.root, f"a host from 0 to {cluster.hosts - 1}")
    if record and cluster.hosts > RECORDED_MAX:
        raise PlanError(f"hosts {cluster.hosts}: a timeline has at most {RECORDED_MAX}")
    made = plan(_request(cluster, question))
    rails, why = _rails(cluster, question.size)
    if binders is not None:
        rails = list(range(cluster.rails))
    form = _form(question, made, cluster.hosts, from_shipped)
    count = 0 if question.collective == "barrier" else question.size // made.element_bytes
    engine = Engine(cluster, form, made, count, rails, multiply, record, binders)
    outcome = engine.run()
    if len(rails) > 1 and question.size > UNDIVIDED_MAX and cluster.split_cost_s is not None:
        outcome.total_s += cluster.split_cost_s
    return Answer(question, made, why, outcome)


def _form(question: Question, made: Plan, hosts: int, from_shipped: bool) -> Form:
    make = shipped.form if from_shipped else forms.form
    return make(question.collective, made.algorithm, hosts, question.root)


def _request(cluster: Cluster, question: Question) -> Dict[str, Any]:
    rate = float(cluster.rate.mean()) if question.nominal is None else question.nominal
    return {"collective": question.collective, "bytes": question.size, "world_size": cluster.hosts,
            "algorithm": question.algorithm, "dtype": question.dtype, "rails": cluster.rails,
            "rate_gbps": gbps(rate), "root": question.root}


def _rails(cluster: Cluster, size: int) -> Tuple[List[int], str]:
    """The rails that an operation of this size may use, as the shipped policy says."""
    every = list(range(cluster.rails))
    if cluster.rails == 1:
        return every, "there is one rail"
    lost = cluster.rate_lost.tolist() if cluster.rate_lost.any() else None
    division = divide(size, cluster.slowest(every), cluster.split_cost_s, lost)
    if size <= UNDIVIDED_MAX:
        return every, division.why
    if not division.splits:
        return [division.single_rail], division.why
    # Without measured interference no rail is left out: all take what they can.
    measured = lost is not None or cluster.split_cost_s is not None
    return (division.used if measured else every), division.why
