"""`nezha flight`: the flight dumps of a job's ranks, and who is to blame."""

from __future__ import annotations

import json
from typing import List

import typer

_HELP = """Reads what the ranks of a job did last, and says who is to blame.

DUMP is a file, or a folder with the files of all ranks. Ranks write them when a communicator fails
(flight_dump=FOLDER), at a signal (flight_signal=SIGUSR1), and with comm.dump_flight(). Dumps that are
missing count, too: a rank that could not write one has a reason.

\b
Examples:
  NEZHA_FLIGHT_DUMP=dumps python train.py; nezha flight dumps
  nezha flight nezha_flight.*.json --json
"""

app = typer.Typer(rich_markup_mode=None, add_completion=False)


@app.command(help=_HELP)
def flight(dumps: List[str] = typer.Argument(..., metavar="DUMP...", help="Files or folders."),
           as_json: bool = typer.Option(False, "--json", help="For programs.")) -> None:
    from ..flight import analyse, choose_run, read_files

    read, problems = read_files(dumps)
    chosen, left_out = choose_run(read)
    for problem in problems + left_out:
        typer.echo(f"nezha flight: {problem}", err=True)
    if not chosen:
        typer.echo("nezha flight: there is no usable dump", err=True)
        raise typer.Exit(1)
    report = analyse(chosen)
    if as_json:
        typer.echo(json.dumps(report.as_dict(), indent=1))
        return
    from .show import section

    section(f"{len(chosen)} of {report.world_size} ranks", list(report.ranks))
    typer.echo(f"Verdict: {report.verdict}")
    for finding in report.findings[1:]:
        typer.echo(f"Also ({finding.kind}): {finding.text}")
