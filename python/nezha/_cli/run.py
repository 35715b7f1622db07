"""`nezha run`: starts the ranks of a job and ends them together."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Dict, List, Optional

import typer

from .. import _console
from .. import _launcher
from .._files import read_text
from .conventions import OURS, App, RunsProgram, json_option

_HELP = """Start the ranks of a job, and end them together.

Each rank gets RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, MASTER_ADDR and MASTER_PORT, so
nezha.init() and torch.distributed need nothing more. Every line of a rank is printed after its [rank];
a traceback, or a warning of Nezha's log, that many ranks have alike is printed once, and then how many
others had it.
When a rank fails, the others get a few seconds to report and are ended; the first failure is reported,
and its exit code is that of `nezha run` (128 + signal when it was killed, 127 when it could not be
started). 125: Nezha itself failed, or the command line is bad. SIGUSR1 and SIGUSR2 are passed on to the
ranks, which start with them ignored.

\b
Examples:
  nezha run -n 4 python train.py
  nezha run -n 2 --env NEZHA_POLICY=table -- python train.py --epochs 3
  nezha lab up --nodes 4 --rates 1gbit,500mbit && nezha run --lab default python train.py
  nezha run --hosts hosts.txt python train.py     (lines: HOST slots=N; through ssh, without
                                                   passwords, same folders on every host)
"""

app = App()


@app.command(help=_HELP, cls=RunsProgram)
def run(command: List[str] = typer.Argument(..., metavar="COMMAND"),
        ranks: Optional[int] = typer.Option(None, "-n", "--ranks", min=1, show_default=False,
                                            help="How many (default: one per lab node, every slot of the "
                                                 "host file, else 1)."),
        hosts: Optional[Path] = typer.Option(None, "--hosts", help="Host file."),
        lab: Optional[str] = typer.Option(None, "--lab", help="Name of a lab that is up."),
        env: List[str] = typer.Option([], "--env", "-x", metavar="NAME[=VALUE]",
                                      help="A variable for every rank; without a value: this process's. "
                                           "Other hosts otherwise get only NEZHA_*, and look for "
                                           "COMMAND first where this host finds it."),
        directory: Optional[str] = typer.Option(None, "--chdir", help="With --hosts: where to "
                                                "start (default: this directory)."),
        master_port: Optional[int] = typer.Option(None, "--master-port", min=1, max=65535,
                                                  help="With --hosts: where the ranks meet."),
        grace: float = typer.Option(3.0, "--grace", min=0, help="Seconds for the other ranks "
                                    "after the first failure."),
        json_to: Optional[str] = json_option("Print a summary as JSON, the ranks' output going to "
                                             "standard error, or write it to FILE.")) -> None:
    with _console.one_line("run", _launcher.LaunchError, code=OURS):
        placed = _place(command, ranks or 0, hosts, lab, variables(env), directory, master_port)
        outcome = _launcher.launch(placed, grace_s=grace,
                                  out=sys.stderr.buffer if json_to == "-" else None)
        if json_to is not None:
            _console.write_json(outcome.to_dict(), json_to)
    _report(outcome, len(placed))
    raise typer.Exit(outcome.exit_code)


def variables(pairs: List[str]) -> Dict[str, str]:
    """The variables of --env. Raises LaunchError for one without a name or a value."""
    found: Dict[str, str] = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals:
            if name not in os.environ:
                raise _launcher.LaunchError(f"--env {name}: it is not set here; write {name}=VALUE")
            value = os.environ[name]
        if not name:
            raise _launcher.LaunchError(f"--env {pair!r}: want NAME or NAME=VALUE")
        found[name] = value
    return found


def _place(command: List[str], ranks: int, hosts: Optional[Path], lab: Optional[str],
           env: Dict[str, str], directory: Optional[str],
           master_port: Optional[int]) -> List[_launcher.Rank]:
    if hosts is not None and lab is not None:
        raise _launcher.LaunchError("--hosts and --lab exclude each other")
    if hosts is None and (directory is not None or master_port is not None):
        raise _launcher.LaunchError("--chdir and --master-port belong to --hosts")
    if lab is not None:
        return _launcher.in_lab(lab, ranks, command, env)
    if hosts is None:
        return _launcher.on_this_host(ranks or 1, command, env)
    try:
        text = read_text(hosts)
    except (OSError, UnicodeDecodeError) as error:
        raise _launcher.LaunchError(f"--hosts {hosts}: {error}") from error
    return _launcher.on_hosts(text, str(hosts), ranks, command, env, directory or os.getcwd(),
                             master_port)


def _report(outcome: _launcher.Outcome, count: int) -> None:
    failure = outcome.first_failure
    if failure is None:
        if outcome.interrupted_by is not None:
            _console.complain("run", f"{outcome.interrupted_by}: all ranks were ended")
        return
    others = "; it was the first to fail, and the others were ended" if count > 1 else ""
    _console.complain("run", f"{failure}{others}")
    if failure.last_lines:
        typer.echo("its last words:", err=True)
        for line in failure.last_lines:
            typer.echo(f"  | {line}", err=True)
