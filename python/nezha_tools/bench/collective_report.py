"""Progress while a bench runs, and its report afterwards: table, JSON, plot."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Callable, Iterator, Optional

from ..cli import console
from . import collective_table
from .collective_plot import plot
from .rows import total_wrong
from .collective_run import Report, Step


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


def publish(report: Report, json_to: Optional[str], plot_to: Optional[Path]) -> int:
    """Prints or writes `report` as asked. Returns the exit status: 1 where a result was wrong."""
    console.answer(report.document, json_to, lambda _: _print_tables(report))
    if plot_to is not None:
        config = report.document["config"]
        plot(report.curves(), plot_to, f"{config['collective']}, {config['ranks']} ranks, "
             f"{config['type']} {config['redop']}")
        print(f"plot: {plot_to}", file=sys.stderr)
    return 1 if total_wrong(report.rows) else 0


def _print_tables(report: Report) -> None:
    document = report.document
    print("\n".join(collective_table.header_lines(document["config"])))
    extras = collective_table.gain_column(report.gains)
    if "spread" in document:
        extras += collective_table.spread_column(document["spread"])
    if "free" in document:
        extras += collective_table.cores_columns(report.rows, document["free"]["rows"])
    collective_table.show(report.rows, extras=extras)
    print("\n".join(collective_table.footer_lines(report.rows, document["wire_check"])))
    for name, entry in document.get("singles", {}).items():
        collective_table.show(entry["rows"], f"{name} only")
    for name, entry in document.get("peers", {}).items():
        collective_table.show(entry["rows"], f"{name} ({entry['algorithm']}), same lab, same rule")
    for name, why in document.get("peers_left_out", {}).items():
        print("#\n# " + f"{name} is left out: {why}".replace("\n", "\n#   "))
