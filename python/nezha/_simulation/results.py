"""What a simulation has found, as JSON; and where its time went."""

from __future__ import annotations

from typing import Any, Dict, List

import numpy as np

from . import flows
from .cluster import Cluster
from .operation import Answer

ASSUMED = [
    "schedules, chunks and the choice of algorithm and rails are the library's, which knows the rates; "
    "the window of open chunks is not limited",
    "a port sends and receives at its rate at once, and sends one message after the other; a message "
    "goes over the rail on which it is through first",
    "switches do not block, except uplinks where a tree is given",
]
ROUGH = (
    "computed wave by wave, although messages of several waves may want one uplink or port here: where "
    "hosts drift apart such times were up to 45 % off, beside a simulation message by message; that is "
    f"run up to {flows.HOSTS_MAX} hosts and {flows.MESSAGES_MAX} messages, on rails that do not change")


def parts(answer: Answer) -> Dict[str, float]:
    """Where the time of the operation went, in seconds: `wire_s`, the busiest port at work, and `idle_s`,
    the rest of the time of that port (latency, waiting for others, adding), add up to the total.
    `adding_s` and `handling_s` are of the busiest processor, and may go on beside the wire."""
    outcome = answer.outcome
    wire = min(float(outcome.busy_s.max(initial=0.0)), outcome.total_s)
    return {"wire_s": wire, "idle_s": outcome.total_s - wire,
            "adding_s": float(outcome.adding_s.max()), "handling_s": float(outcome.handling_s.max())}


def rails(cluster: Cluster, answer: Answer) -> List[Dict[str, Any]]:
    """Of every rail the bytes that all hosts send, their part, and how long a port is idle."""
    outcome = answer.outcome
    whole = float(outcome.sent.sum())
    found = []
    for rail in range(cluster.rails):
        used = rail in outcome.rails
        column = outcome.rails.index(rail) if used else 0
        sent = outcome.sent[:, column] if used else np.zeros(1)
        busy = outcome.busy_s[:, column] if used else np.zeros(1)
        found.append({
            "rail": rail, "bytes": float(sent.sum()), "most_bytes_of_a_host": float(sent.max()),
            "share": float(sent.sum()) / whole if whole else 0.0,
            "busiest_port_idle_us": 1e6 * max(0.0, outcome.total_s - float(busy.max())),
            "mean_port_idle_us": 1e6 * max(0.0, outcome.total_s - float(busy.mean())),
        })
    return found


def row(cluster: Cluster, answer: Answer) -> Dict[str, Any]:
    """One answer as JSON."""
    outcome, question = answer.outcome, answer.question
    return {
        "collective": question.collective, "size": question.size, "hosts": cluster.hosts,
        "algorithm": answer.plan.algorithm, "chunks_per_slice": answer.plan.chunks,
        "time_us": 1e6 * outcome.total_s,
        "parts_us": {name[:-2] + "_us": 1e6 * value for name, value in parts(answer).items()},
        "rails": rails(cluster, answer), "balancer": answer.why,
        "rough": ROUGH if answer.is_rough else None,
        "waves": outcome.waves, "waves_run": outcome.waves_run,
    }
