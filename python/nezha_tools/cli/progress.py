"""Progress of a command that takes a while, on the terminal of who waits for it."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from typing import Any, Callable, Iterator

from . import console

Step = Callable[[str, int], Callable[[Any], None]]  # (what, how many) -> called after each


@contextmanager
def progress() -> Iterator[Step]:
    """A Step that draws a bar on a terminal's standard error, and nothing elsewhere."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
    from rich.progress import TimeElapsedColumn

    with Progress(TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(),
                  TimeElapsedColumn(), console=console.terminal(stderr=True), transient=True,
                  disable=not sys.stderr.isatty()) as bars:

        def step(what: str, total: int) -> Callable[[Any], None]:
            task = bars.add_task(what, total=total)

            def advance(record: Any) -> None:
                bars.update(task, advance=1, description=f"{what} {getattr(record, 'label', '')}")

            return advance

        yield step
