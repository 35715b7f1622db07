"""`nezha plan job --calibration`: what was measured of the rails, in place of what is assumed."""

from __future__ import annotations

from typing import Any, Dict, Mapping, Optional, Sequence

from .algorithms import Question, together
from .library import Rails
from nezha_tools.cli.units import gbps


def fields(rails: Rails, rate_lost: Optional[Sequence[Sequence[float]]], adds: float) -> Dict[str, Any]:
    """The fields of a job (the keys of job_spec.READERS) that measured rails give: all of them together
    as the NICs of a node, less what they lose to each other, their latency, and what a rank adds."""
    count = len(rails)
    rate, latency_s = together(Question("all_reduce", 2, rails, None, rate_lost), range(count))
    return {"nics": f"{count}x{gbps(rate) / count:.9f}Gbit/s", "latency": f"{1e6 * latency_s:.6f}us",
            "adds": f"{adds / 1e9:.6f}GB/s"}


def assumption(given: Mapping[str, Any], name: str) -> str:
    """The sentence about what the file replaced."""
    taken = [each for each in ("nics", "latency", "adds") if each not in given]
    return f"{', '.join(taken) or 'nothing'} as measured, from {name}; measured rails reach all of it"
