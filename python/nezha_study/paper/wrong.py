"""What a wrong element does: it ends the study."""

from __future__ import annotations

from nezha_tools.cli.errors import BenchError
from nezha_tools.cli.sizes import format_size
from .jobs import Job


def refuse_wrong(job: Job, size: int, wrong: int) -> None:
    """Raises BenchError where some elements of an all_reduce of `size` bytes were wrong."""
    if wrong:
        raise BenchError(f"{wrong} WRONG ELEMENTS of an all_reduce of {format_size(size)} over "
                         f"{job.title}: nothing of this measurement is kept")
