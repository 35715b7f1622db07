"""What a simulation has found, as JSON; and where its time went."""

from __future__ import annotations

from typing import Any, Dict, List, Optional

import numpy as np

from nezha_tools.cli.units import rate_text, time_text
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
INSIDE = (
    "ranks of a host share its ports; inside it each sends and takes {rate}, {latency} a message, and "
    "adds what comes that way beside what comes over rails")
ROUGH = (
    "computed wave by wave, although messages of several waves may want one uplink or port here: where "
    "hosts drift apart such times were up to 45 % off, beside a simulation message by message; that is "
    f"run up to {flows.HOSTS_MAX} hosts of one rank and {flows.MESSAGES_MAX} messages, on rails that do "
    "not change")


ROUGH_HOSTS = (
    "computed wave by wave: where chunks of one operation overtake each other inside hosts and between "
    "them, such times were 11 % too short to 30 % too long beside a simulation message by message, and "
    "twice as long by leaders")


def assumed(cluster: Cluster) -> List[str]:
    """What is assumed of such a cluster."""
    if cluster.layout.is_single:
        return list(ASSUMED)
    rate, latency_s = cluster.inside
    return [*ASSUMED, INSIDE.format(rate=rate_text(rate), latency=time_text(latency_s))]


def parts(answer: Answer) -> Dict[str, float]:
    """Where the time of the operation went, in seconds: `wire_s`, the busiest port at work, and `idle_s`,
    the rest of the time of that port (latency, waiting for others, adding), add up to the total.
    `inside_s`, of the rank that sends most inside its host, and `adding_s` and `handling_s`, of the
    busiest processor, may go on beside the wire."""
    outcome = answer.outcome
    wire = min(float(outcome.busy_s.max(initial=0.0)), outcome.total_s)
    return {"wire_s": wire, "idle_s": outcome.total_s - wire,
            "inside_s": float(outcome.inside_s.max()),
            "adding_s": float(outcome.adding_s.max()), "handling_s": float(outcome.handling_s.max())}


def _rough(cluster: Cluster, answer: Answer) -> Optional[str]:
    if answer.is_rough:
        return ROUGH
    by_hosts = answer.plan.algorithm in ("hierarchical", "leaders") and answer.plan.chunks > 1
    return ROUGH_HOSTS if by_hosts and answer.question.collective != "broadcast" else None


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
        "ranks": cluster.ranks,
        "algorithm": answer.plan.algorithm, "chunks_per_slice": answer.plan.chunks,
        "time_us": 1e6 * outcome.total_s,
        "parts_us": {name[:-2] + "_us": 1e6 * value for name, value in parts(answer).items()},
        "rails": rails(cluster, answer), "balancer": answer.why,
        "rough": _rough(cluster, answer),
        "waves": outcome.waves, "waves_run": outcome.waves_run,
    }
