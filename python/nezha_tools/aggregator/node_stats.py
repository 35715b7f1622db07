"""What a node's statistics say: sums over its jobs and over those that are over, and refusals by reason.

Pure. A node's statistics are the JSON of nezha_aggregator_stats: bytes, numbers since it was started.
"""

from __future__ import annotations

from typing import Any, Dict, List

Stats = Dict[str, Any]

# reason -> what happened, for a line of the log
REASONS = {
    "ticket": "connections without a ticket of this node's key or its proof (another key?)",
    "replay": "connections that showed a ticket which a member had shown before",
    "silence": "connections that said too little in time, or had to make room",
    "jobs": "connections of jobs beyond --jobs-max, or of too many sessions",
    "connections": "connections beyond what a job may have",
    "groups": "communicators beyond --groups-max or --memory, or that made no sense",
    "budget": "sessions whose ranks made the node hold more than their communicators may",
}


def total(stats: Stats, name: str) -> int:
    """The sum of `name` over all jobs of the node's life."""
    return int(stats.get("ended", {}).get(name, 0)) + sum(int(job.get(name, 0)) for job in jobs(stats))


def jobs(stats: Stats) -> List[Stats]:
    """The jobs that the node serves now."""
    found: List[Stats] = stats.get("jobs", [])
    return found


def refusals(stats: Stats) -> Dict[str, int]:
    """How often each of REASONS applied."""
    connections = stats.get("connections", {})
    replayed = int(connections.get("replayed", 0))
    return {"ticket": int(connections.get("refused", 0)) - replayed, "replay": replayed,
            "silence": int(connections.get("expired", 0)),
            "jobs": int(stats.get("refused_jobs", 0)),
            "connections": total(stats, "refused_connections"), "groups": total(stats, "refused_groups"),
            "budget": total(stats, "over_budget")}


def job_name(job: Stats) -> str:
    """A job as the logs of the node write it, and which of its sessions."""
    return f"{int(job.get('job', 0)):016x}/{int(job.get('session', 0))}"


class RefusalLog:
    """Lines about refusals: at once when something new happens, then at most one for a reason in
    `pause` seconds, with how many there were meanwhile."""

    def __init__(self, pause: float = 10.0) -> None:
        self._pause = pause
        self._told: Dict[str, int] = dict.fromkeys(REASONS, 0)
        self._next: Dict[str, float] = dict.fromkeys(REASONS, 0.0)

    def lines(self, stats: Stats, now: float) -> List[str]:
        """What is to be said now; `now` in seconds of any clock that only goes forward."""
        found = []
        for reason, count in refusals(stats).items():
            fresh = count - self._told[reason]
            if fresh <= 0 or now < self._next[reason]:
                continue
            self._told[reason], self._next[reason] = count, now + self._pause
            found.append(f"refused {fresh} {REASONS[reason]}; {count} since the start")
        return found
