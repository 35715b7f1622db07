"""`nezha flight`: the flight dumps of a job's ranks, and the cause."""

from __future__ import annotations

from typing import Any, List, Optional

import typer

from ..cli import console
from ..cli.conventions import FOUND, WRONG_LINE, App, json_option

_HELP = """Reads what the ranks of a job did last, and reports the cause of an error or hang.

DUMP is a file, or a folder with the files of all ranks. Ranks write them when a communicator fails
(flight_dump=FOLDER), at a signal (flight_signal=SIGUSR1), and with comm.dump_flight(). Dumps that are
missing count, too: a rank that could not write one has a reason.

Exit codes: 0 where nothing is wrong, 1 where something is, 2 where no dump could be read.

\b
Examples:
  NEZHA_FLIGHT_DUMP=dumps python train.py; nezha flight dumps
  nezha flight nezha_flight.*.json --json
"""

app = App()


@app.command(help=_HELP)
def flight(dumps: List[str] = typer.Argument(..., metavar="DUMP...", help="Files or folders."),
           json_to: Optional[str] = json_option()) -> None:
    from . import analyse, choose_run, read_files

    read, problems = read_files(dumps)
    chosen, left_out = choose_run(read)
    for problem in problems + left_out:
        console.complain("flight", problem)
    if not chosen:
        console.complain("flight", "there is no usable dump")
        raise typer.Exit(WRONG_LINE)
    report = analyse(chosen)

    def show(_: Any) -> None:
        console.section(f"{len(chosen)} of {report.world_size} ranks", list(report.ranks))
        typer.echo(f"Verdict: {report.verdict}")
        for finding in report.findings[1:]:
            typer.echo(f"Also ({finding.kind}): {finding.text}")

    with console.one_line("flight", code=FOUND):
        console.answer(report.as_dict(), json_to, show)
    raise typer.Exit(FOUND if report.findings else 0)
