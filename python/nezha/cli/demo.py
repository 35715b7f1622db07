"""`nezha demo`: three small clusters on this machine, one table, one picture, one training."""

from __future__ import annotations

import sys
from pathlib import Path

import typer

from ..bench import demo as demonstration
from ..bench import output
from ..bench.errors import BenchError
from ..errors import Error
from ..lab import LabError
from .launched import refuse_launcher

# In the wheel, from examples/.
_EXAMPLE = Path(__file__).parent.parent / "examples" / "digits_numpy.py"

app = typer.Typer(rich_markup_mode=None, add_completion=False,
                  help="See what a second network is worth, on this machine, in a minute or two.")


@app.callback(invoke_without_command=True)
def demo(
    plot: Path = typer.Option(Path("out/demo.png"), "--plot", help="Where the picture goes."),
    example: Path = typer.Option(_EXAMPLE, "--example", help="The training script.",
                                 show_default="nezha/examples/digits_numpy.py"),
) -> None:
    """Measure one rail, two equal ones, and one and a half; then train on real data over one and two."""
    try:
        refuse_launcher()
        with output.progress() as step:
            result = demonstration.run_demo(step, example.absolute())
    except (BenchError, LabError, Error) as error:
        print(f"nezha demo: {error}", file=sys.stderr)
        raise typer.Exit(1) from None
    _print_table(result)
    for line in demonstration.report_lines(result):
        print(line)
    try:
        demonstration.draw(result, plot)
        print(f"Picture: {plot}")
    except BenchError as error:
        print(f"No picture: {error}")
    raise typer.Exit(0 if result.ok else 1)


def _print_table(result: demonstration.Demo) -> None:
    from rich.console import Console
    from rich.table import Table

    headings, cells = demonstration.table(result)
    table = Table(title=f"all_reduce of float32 sum, {demonstration.NODES} nodes, in place",
                  header_style="bold")
    for heading in headings:
        table.add_column(heading, justify="right", no_wrap=True)
    for line in cells:
        table.add_row(*line)
    # A pipe has no width of its own: never fold the digits.
    Console(width=None if sys.stdout.isatty() else 120).print(table)
