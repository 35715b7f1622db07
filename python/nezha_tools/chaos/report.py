"""What happened in a run, as a JSON-ready document."""

from __future__ import annotations

from typing import Any, Dict, List, Optional

from ..lab import format_rate
from .baseline import FAULTS_BEGIN, Baseline, measure
from .nemesis import Happening
from .experiment import INTERVAL_S, Run
from .shortfall import Course, Lasting, judge
from .throughput import Span, outside

_POINTS = 600
_AFTER_S = 1.0  # "back" means the second after a fault


def document(run: Run) -> Dict[str, Any]:
    """Everything, JSON-ready. Rates in bit/s per node, times in seconds from the run's start."""
    request = run.request
    baseline = _baseline(run)
    undisturbed = _per_node(run, baseline.rails_bps)
    below = _below(run, baseline)
    times, rates = run.timeline.rates(_POINTS)
    problems = find_problems(run)
    return {
        "config": {"command": list(request.command), "seed": request.seed, "nodes": request.nodes,
                   "rails": [format_rate(rate) for rate in run.rates_bps],
                   "faults": list(request.faults), "every_s": request.every_s,
                   "lasting_s": request.lasting_s, "count": request.count,
                   "allow_all_down": request.allow_all_down, "only_nodes": request.only_nodes,
                   "only_rails": request.only_rails, "env": dict(request.env)},
        "program": run.outcome.to_dict(), "traffic_from_s": run.traffic_s,
        "ended_s": round(run.ended_s, 3),
        "steady_from_s": run.steady_s, "undisturbed_bps": undisturbed, "below": below,
        "longest_standstill_undisturbed_s": round(
            run.timeline.longest_standstill(_calm(run)), 3),
        "faults": [_fault(run, happening, undisturbed) for happening in run.happenings],
        "timeline": {"sampled_every_s": INTERVAL_S, "t_s": [round(t, 3) for t in times],
                     "rails_bps": [[round(v / request.nodes) for v in rail] for rail in rates]},
        "nezha": {str(rank): counts for rank, counts in sorted(run.counts.items())},
        "notes": _notes(run, baseline, below), "problems": problems,
        "exit_code": run.outcome.exit_code or (1 if problems else 0),
    }


def find_problems(run: Run) -> List[str]:
    """Why the faults were not what was asked for; empty when all is well."""
    if run.traffic_s is None:
        return ["no fault was inflicted: not every rank of the program sent data over the rails"]
    found = [f"fault {h.injection.number} ({h.injection.kind}, {h.injection.where}) could not be "
             f"confirmed: {h.evidence}" for h in run.happenings if h.happened is False]
    if not found and not any(happening.happened for happening in run.happenings):
        return ["no fault happened: the program ended before the first one was over. Faults begin "
                f"{FAULTS_BEGIN}; let it run longer"]
    return found


def _until(run: Run) -> float:
    """The end of the program's traffic. One that fails may have stood still until then: that counts."""
    return run.timeline.busy_until_s if run.outcome.exit_code == 0 else run.ended_s


def _undisturbed(run: Run) -> Optional[Span]:
    """The time with which the rest is compared: a rail that never comes back must not lower it."""
    if run.steady_s is None:
        return None
    return run.steady_s, min((h.began_s - INTERVAL_S for h in run.happenings), default=_until(run))


def _baseline(run: Run) -> Baseline:
    undisturbed = _undisturbed(run)
    calm = [] if undisturbed is None else outside(undisturbed[1], _until(run), [
        (h.began_s - INTERVAL_S, h.ended_s + INTERVAL_S) for h in run.happenings])
    at_work_s = 0.0 if run.traffic_s is None else run.ended_s - run.traffic_s
    return measure(run.timeline, undisturbed, calm, at_work_s)


def _below(run: Run, baseline: Baseline) -> Optional[Dict[str, Any]]:
    undisturbed = _undisturbed(run)
    if undisturbed is None or baseline.rails_bps is None:
        return None
    nodes = run.request.nodes
    faults = [Lasting(h.injection, h.began_s - INTERVAL_S, h.ended_s + INTERVAL_S)
              for h in run.happenings]
    return judge(run.timeline, Course(nodes, run.rates_bps, baseline.total_bps / nodes, undisturbed,
                                      faults, _until(run)))


def _notes(run: Run, baseline: Baseline, below: Optional[Dict[str, Any]]) -> List[str]:
    """Why a number is missing."""
    if run.traffic_s is None:
        return []
    if baseline.missing:
        return [f"There are no percentages: {baseline.missing}"]
    if below is None:
        return ["Seconds below what was possible are not counted: the program moves far less than its "
                "mean for seconds at a time also when nothing disturbs it"]
    return []


def _calm(run: Run) -> List[Span]:
    """All the time that no fault can be blamed for."""
    if run.traffic_s is None:
        return []
    return outside(run.traffic_s if run.steady_s is None else run.steady_s, run.ended_s,
                   [(h.began_s - INTERVAL_S, h.ended_s + _AFTER_S) for h in run.happenings])


def _per_node(run: Run, rates: Optional[List[float]]) -> Optional[List[float]]:
    return None if rates is None else [round(rate / run.request.nodes) for rate in rates]


def _fault(run: Run, happening: Happening, undisturbed: Optional[List[float]]) -> Dict[str, Any]:
    began, ended = happening.began_s, happening.ended_s
    found = happening.to_dict()
    # What happens after the next fault has begun is not this one's doing.
    later = [h.began_s for h in run.happenings if h.began_s > began]
    after = min([ended + _AFTER_S, run.ended_s, *later])
    span = (began - INTERVAL_S, max(after, min([ended, *later])))
    found["standstill_s"] = round(run.timeline.longest_standstill([span]), 3)
    found["traffic_during"] = _share(run, (began, ended), undisturbed)
    found["traffic_after"] = _share(run, (ended, after), undisturbed)
    return found


def _share(run: Run, span: Span, undisturbed: Optional[List[float]]) -> Optional[float]:
    """Throughput over all rails, as a part of the undisturbed one."""
    if not undisturbed or not sum(undisturbed) or span[1] - span[0] < 2 * INTERVAL_S:
        return None
    rates = _per_node(run, run.timeline.mean_bps([span])) or []
    return round(sum(rates) / sum(undisturbed), 3)
