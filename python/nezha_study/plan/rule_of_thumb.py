"""The usual computation on paper: bandwidth alone, every gradient sent twice. Pure.

Source: Machine Learning Engineering, chapter Network. It leaves out latency, the factor 2 (n - 1) /
n and what an algorithm reaches, and is shown so that an answer can be compared with what people
expect.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Optional

from .job_spec import Job


def transfer_seconds(size: float, rate: float) -> float:
    """`size` bytes at `rate` bytes per second."""
    return size / rate


@dataclass(frozen=True)
class RuleOfThumb:
    """Seconds of 2 x params x bytes: over a node's NICs as advertised and in practice, inside a node.

    slower: how many times slower between nodes than inside one. None where there is no such link.
    """

    size: float
    between_s: Optional[float]
    practical_s: Optional[float]
    inside_s: Optional[float]

    @property
    def slower(self) -> Optional[float]:
        """How many times as long it takes between hosts as inside one; None where one is not known."""
        return self.between_s / self.inside_s if self.between_s and self.inside_s else None


def rule_of_thumb(job: Job) -> RuleOfThumb:
    """For the gradients of a whole model on every accelerator, as data parallelism alone sends them."""
    size = 2 * job.params * job.gradient_bytes
    inside = job.inside(job.gpus) / job.efficiency
    between = job.outside() * job.gpus / job.efficiency
    return RuleOfThumb(
        size, transfer_seconds(size, between) if between else None,
        transfer_seconds(size, between * job.efficiency) if between else None,
        transfer_seconds(size, inside) if inside and job.gpus > 1 else None)
