"""Jobs that measure something other than the times of all_reduces."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, Callable, Dict, List, Sequence

from .jobs import Job, Settings

Advance = Callable[[Any], None]


class OwnJob(Job, ABC):
    """A job that brings its measurement along."""

    def records(self, settings: Settings) -> int:
        """How many samples it hands out."""
        return 1

    @abstractmethod
    def measure(self, settings: Settings, advance: Advance) -> Dict[str, Any]:
        """Measures in a lab of its own; the result as JSON has it. Raises BenchError for a wrong element,
        which ends everything; LabError."""


def usual_nodes(nodes: Sequence[int]) -> int:
    """For a figure with one number of nodes: 4 where they are among `nodes`, else the most of them."""
    return 4 if 4 in nodes else max(nodes)


def large(settings: Settings, most: int) -> List[int]:
    """A large size: the largest of the study, but no more than `most` bytes."""
    return [max(4, min(settings.largest, most) // 4 * 4)]
