"""`nezha demo`: three small clusters on this machine, one table, one picture, one training."""

from __future__ import annotations

from pathlib import Path

import typer

from ..cli import console
from . import clusters as demonstration
from ..cli.progress import progress
from ..cli.errors import BenchError
from nezha.errors import Error
from ..lab import LabError
from ..cli.conventions import FOUND, App
from ..cli.launched import refuse_launcher

# In the wheel, from examples/.
_EXAMPLE = Path(__file__).parent.parent / "examples" / "digits_numpy.py"

app = App()


@app.command(help="""See what a second network is worth, on this machine, in a minute or two.

Measures one rail, two equal ones, and one and a half; then trains on real data over one and two.
""")
def demo(
    plot: Path = typer.Option(Path("out/demo.png"), "--plot", help="Where the picture goes."),
    example: Path = typer.Option(_EXAMPLE, "--example", help="The training script.",
                                 show_default="nezha_tools/examples/digits_numpy.py"),
) -> None:
    try:
        refuse_launcher()
        with progress() as step:
            result = demonstration.run_demo(step, example.absolute())
    except (BenchError, LabError, Error) as error:
        console.complain("demo", error)
        raise typer.Exit(FOUND) from None
    console.table(*demonstration.table(result),
                  title=f"all_reduce of float32 sum, {demonstration.NODES} nodes, in place")
    for line in demonstration.report_lines(result):
        print(line)
    try:
        demonstration.draw(result, plot)
        print(f"Picture: {plot}")
    except BenchError as error:
        print(f"No picture: {error}")
    raise typer.Exit(0 if result.ok else FOUND)
