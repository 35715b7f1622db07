"""`nezha chaos`: the user's own program in a lab whose rails and ranks get faults."""

from __future__ import annotations

import contextlib
import io
import random
import sys
import threading
from pathlib import Path
from typing import IO, Any, Dict, Iterator, List, Optional

import typer

from ..cli import console
from ..cli.errors import BenchError
from . import fault_figure, report
from ..cli.errors import ChaosError
from .baseline import FAULTS_BEGIN
from .faults import Injection, parse_faults, parse_seconds
from .nemesis import Happening
from .experiment import Request, Watcher, run
from ..lab import LabError
from nezha.launcher import LaunchError, variables
from ..cli.values import read_rates
from ..cli.conventions import OURS, App, RunsProgram, json_option
from ..cli.launched import refuse_launcher

_HELP = f"""Run your program in a lab, inject faults on its rails and ranks, and report its throughput.

Builds a cluster out of network namespaces, starts one rank of your program on every node (RANK,
WORLD_SIZE, MASTER_ADDR ... are set, as by `nezha run`), and injects one fault after the other until it
ends. Faults begin {FAULTS_BEGIN}.
Every fault is confirmed by a counter of the kernel.

\b
Faults:
{report.describe_faults()}

What is hit, when and for how long follows from --seed alone; the report says how to repeat it. No two
nodes ever lose their last common rail, unless you ask for --allow-all-down.

\b
Examples:
  nezha chaos -- python train.py
  nezha chaos --nodes 4 --rates 1gbit,1gbit --faults cut,blackhole,slow,flap --every 2s -- python train.py
  nezha chaos --faults pause,reset --every 500ms --lasting 3s --seed 7 -- python train.py
  nezha chaos --faults slow --only-rails 1 --count 5 --json=report.json --plot slow.png -- ./job

Times are 2s, 500ms or 5m. Faults that last longer than --every overlap. The exit code is the program's,
or 1 when a fault could not be confirmed, or none happened. 125: Nezha itself failed, or the command line
is bad.
"""

app = App()

_DEFAULT_PICTURE = Path("out/chaos.png")


@app.command(help=_HELP, cls=RunsProgram)
def chaos(
    command: List[str] = typer.Argument(..., metavar="COMMAND"),
    nodes: int = typer.Option(4, "--nodes", min=1, help="Nodes of the lab, one rank on each."),
    rates_text: str = typer.Option("1gbit,1gbit", "--rates", help="One for each rail of the lab."),
    faults: str = typer.Option("cut,blackhole,oneway,reset,slow,crawl,flap", "--faults",
                               help="Which faults, in any order."),
    every: str = typer.Option("2s", "--every", help="From one fault to the next."),
    lasting: Optional[str] = typer.Option(None, "--lasting", show_default=False,
                                          help="How long each lasts (default: half of --every)."),
    count: Optional[int] = typer.Option(None, "--count", min=1, show_default=False,
                                        help="At most so many faults (default: until the end)."),
    seed: Optional[int] = typer.Option(None, "--seed", min=0, show_default=False,
                                       help="Repeats a run's faults (default: a new one)."),
    only_nodes: Optional[str] = typer.Option(None, "--only-nodes", help="Hit only these, e.g. 0,2."),
    only_rails: Optional[str] = typer.Option(None, "--only-rails", help="Hit only these, e.g. 1."),
    allow_all_down: bool = typer.Option(False, "--allow-all-down", help="Faults may also leave two "
                                        "nodes without any rail between them."),
    env: List[str] = typer.Option([], "--env", "-x", metavar="NAME[=VALUE]",
                                  help="A variable for every rank; without a value: this process's."),
    grace: float = typer.Option(3.0, "--grace", min=0, help="Seconds for the other ranks after the "
                                "first failure. A rank killed as a fault does not count."),
    mode: Optional[str] = typer.Option(None, "--mode", help="Of the lab: root or userns."),
    json_to: Optional[str] = json_option("Print the report as JSON on standard output, the program's "
                                         "output going to standard error, or write it to FILE."),
    plot: Optional[Path] = typer.Option(None, "--plot", show_default=False, help="Where the picture "
                                        f"goes (default: {_DEFAULT_PICTURE})."),
) -> None:
    with console.one_line("chaos", ChaosError, LabError, LaunchError, BenchError, code=OURS):
        refuse_launcher()
        every_s = parse_seconds(every)
        request = Request(
            command, parse_faults(faults), random.randrange(1 << 31) if seed is None else seed, nodes,
            read_rates(rates_text), every_s, every_s / 2 if lasting is None else parse_seconds(lasting),
            count, allow_all_down, _numbers("--only-nodes", only_nodes),
            _numbers("--only-rails", only_rails), variables(env), grace, mode)
        document = _perform(request, to_stderr=json_to == "-")
        console.answer(document, json_to, report.show)
        _draw(document, plot)
    raise typer.Exit(document["exit_code"])


def _numbers(option: str, text: Optional[str]) -> Optional[List[int]]:
    if text is None:
        return None
    try:
        return [int(word) for word in text.split(",")]
    except ValueError:
        raise ChaosError(f"{option} {text!r}: want numbers, e.g. 0,2") from None


def _draw(document: Dict[str, Any], plot: Optional[Path]) -> None:
    why_not = fault_figure.can_draw()
    if why_not is not None and plot is None:
        console.complain("chaos", f"no picture: {why_not}")
        return
    path = plot or _DEFAULT_PICTURE
    fault_figure.draw(document, path)
    print(f"picture: {path}", file=sys.stderr)


def _perform(request: Request, to_stderr: bool) -> Dict[str, Any]:
    print(f"nezha chaos: {request.nodes} nodes, rails {','.join(request.rails)}, faults "
          f"{','.join(request.faults)} every {request.every_s:g} s, seed {request.seed}; they begin "
          f"{FAULTS_BEGIN}", file=sys.stderr, flush=True)
    with _watcher(request, sys.stderr.buffer if to_stderr else None) as watcher:
        return report.document(run(request, watcher))


def _line(happening: Happening) -> str:
    verdict = {True: "yes", False: "NOT CONFIRMED", None: "unknown"}[happening.happened]
    injection = happening.injection
    return (f"nezha chaos: {happening.began_s:6.1f} s  {injection.kind} of {injection.where}, "
            f"{happening.ended_s - happening.began_s:.2f} s: {verdict}, {happening.evidence}")


@contextlib.contextmanager
def _watcher(request: Request, out: Optional[IO[bytes]]) -> Iterator[Watcher]:
    """Says on standard error what is done; on a terminal below it, what is being done."""
    if not sys.stderr.isatty():
        yield Watcher(lambda _: None, lambda h: print(_line(h), file=sys.stderr, flush=True), out)
        return
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    screen = console.terminal(stderr=True)
    running: Dict[int, Injection] = {}
    with Progress(TextColumn("{task.description}"), BarColumn(), TextColumn("{task.completed} faults"),
                  TimeElapsedColumn(), console=screen, transient=True) as bars:
        task = bars.add_task("measuring the undisturbed throughput", total=request.count)

        def describe() -> None:
            now = ", ".join(f"{i.kind} of {i.where}" for i in running.values())
            bars.update(task, description=now or "calm", completed=done[0])

        def begin(injection: Injection) -> None:
            running[injection.number] = injection
            describe()

        def end(happening: Happening) -> None:
            running.pop(happening.injection.number)
            done[0] += 1
            screen.print(_line(happening), soft_wrap=True)
            describe()

        done = [0]
        above = _AboveTheBar(screen)
        yield Watcher(begin, end, out=above if out is None else out, err=above)


class _AboveTheBar(io.RawIOBase):
    """Takes the ranks' lines and prints them where they do not tear the progress bar."""

    def __init__(self, screen: Any) -> None:
        super().__init__()
        self._screen = screen
        self._lock = threading.Lock()

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        with self._lock:
            text = bytes(data).decode(errors="replace")
            self._screen.print(text, end="", soft_wrap=True)
        return len(data)
