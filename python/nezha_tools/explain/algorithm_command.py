"""`nezha algorithm`: schedules of one's own, before a job runs by them."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Dict, Optional

import typer

from ..cli import console
from nezha.files import read_text
from ..cli.conventions import FOUND, WRONG_LINE, App, json_option

_CHECK_HELP = """Verifies the schedules of FILE, as a job with algorithm_file=FILE does at its start.

Exit codes: 0 where they are right, 1 where they are wrong, with the line and the step, 2 where there is
no such file. docs/algorithms.md says how to write one.

\b
Examples:
  nezha explain all_reduce --world-size 3 --algorithm ring --print > mine.txt
  nezha algorithm check mine.txt
"""

app = App(no_args_is_help=True, help="Schedules of your own for a collective, as data.")


def read_algorithm(path: Path) -> str:
    """The text of an algorithm file. Raises ValueError, naming the file and the reason."""
    try:
        return read_text(path, errors="replace")
    except OSError as error:
        raise ValueError(f"cannot read {path}: {error.strerror}") from None


@app.callback()
def _group() -> None:
    """Keeps `check` a subcommand, though it is the only one."""


@app.command(help=_CHECK_HELP)
def check(file: Path = typer.Argument(..., metavar="FILE", help="Schedules of all ranks."),
          json_to: Optional[str] = json_option()) -> None:
    from nezha import errors
    from nezha.queries import ask

    with console.one_line("algorithm check", ValueError, code=WRONG_LINE):
        text = read_algorithm(file)
    try:
        found = ask("algorithm", {"text": text})
    except errors.Error as error:
        console.complain("algorithm check", f"{file}: {error}")
        raise typer.Exit(FOUND) from None
    with console.one_line("algorithm check", code=FOUND):
        console.answer({"file": str(file), **found}, json_to, _show)


def _show(found: Dict[str, Any]) -> None:
    typer.echo(f"{found['file']}: proved. {found['collective']} of {found['world_size']} ranks, root "
               f"{found['root']}")
    typer.echo(f"  {found['slices']} slices ({found['geometry']}), chunks of at most {found['parts']} "
               f"parts; {found['rounds']} rounds, {found['messages']} messages a chunk of every slice")
    if found["waits"]:
        typer.echo(f"  additions wait for messages: {found['pair_load']} x the open chunks must fit "
                   "into credit_bytes")
