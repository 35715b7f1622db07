"""`nezha calibrate`: what the rails of this cluster cost, measured, for nezha plan and nezha sim."""

from __future__ import annotations

from pathlib import Path
from typing import Optional

import typer

from nezha_tools.cli import console
from nezha_tools.cli.progress import progress
from nezha_tools.cli.errors import BenchError
from nezha_tools.cli.sizes import parse_size, size_list
from nezha.errors import Error
from nezha_tools.lab import LabError
from nezha_tools.cli.errors import PlanError
from nezha_tools.cli.values import read_rates
from nezha_tools.cli.conventions import FOUND, WRONG_LINE, App, json_option
from nezha_tools.cli.launched import asked, in_words, launched, refuse

HELP = """Measure what the rails of a cluster cost: latency, rate, processor time of a message.

Every rail alone at several sizes, then all together; the costs are those with which nezha sim comes
nearest. Then messages among the ranks of one host, where there are several. nezha plan algorithm and
nezha sim collective read the file with --calibration, and jobs with the option calibration_file.

\b
Examples:
  nezha run --hostfile hosts.txt nezha calibrate                on the rails of these hosts
  nezha run --hostfile hosts.txt nezha calibrate --pairs p2p.json    the same, with each port's rate
  nezha calibrate --rates 200mbit,100mbit                    in labs of 2 and 3 nodes
"""

app = App()


@app.command(help=HELP)
def calibrate(
    context: typer.Context,
    nodes: str = typer.Option("2,3", "--nodes", help="Sizes of the labs, one after the other."),
    rates_text: str = typer.Option("1gbit,1gbit", "--rates", help="One for each rail of the labs."),
    ranks_per_node: int = typer.Option(2, "--ranks-per-node", min=1, max=64, help="Ranks of the node in "
                                       "which messages inside a host are measured; 1: not measured."),
    minbytes: str = typer.Option("256K", "-b", "--minbytes", help="Smallest size."),
    maxbytes: str = typer.Option("4M", "-e", "--maxbytes", help="Largest size."),
    factor: int = typer.Option(4, "-f", "--stepfactor", help="Each size is so many times the one "
                               "before."),
    seconds: float = typer.Option(0.5, "--seconds", min=0.01, help="Of each size in each run."),
    passes: int = typer.Option(2, "--passes", min=1, help="Runs; the quickest counts (in a lab)."),
    interference: Optional[Path] = typer.Option(None, "--interference", help="What rails cost each "
                                                "other: the file of nezha bench interference."),
    pairs: Optional[Path] = typer.Option(None, "--pairs", help="How fast each host's ports are: the file "
                                         "of nezha bench p2p --json=FILE, of the same hosts and rails."),
    save_to: Path = typer.Option(Path("out/calibration.json"), "--save", help="Where the costs go."),
    json_to: Optional[str] = json_option(),
) -> None:
    from ..plan.interference_file import read_interference
    from . import calibration, measuring, pairs as pairs_file, show, sweep

    kinds = (PlanError, BenchError, LabError, Error, ValueError)
    with console.one_line("calibrate", *kinds, code=WRONG_LINE):
        world = launched()
        in_lab = world is None or world.world_size == 1
        if world is not None and not in_lab:
            why = ("the rails between the launched ranks are measured; start it without a launcher for "
                   "a lab")
            refuse(asked(context), {"nodes": why, "rates_text": why, "ranks_per_node": why},
                   f"here, {in_words(world)}")
        request = measuring.Request(size_list(parse_size(minbytes), parse_size(maxbytes), factor, 4),
                                    read_rates(rates_text), seconds, passes)
        hosts = sweep.counts("nodes", nodes)
        if pairs is not None and in_lab:
            raise PlanError(f"--pairs {pairs}: hosts of a lab are alike; it is for launched ranks")
        read = pairs_file.read_pairs(pairs) if pairs is not None and world and world.rank == 0 else None
        if len(request.sizes) < 2:
            raise PlanError(f"maxbytes {maxbytes}: it must be above minbytes, {minbytes}: a rate "
                            "and a latency follow from two sizes at least")
        if min(hosts) < 2 or max(hosts) > 64:
            raise PlanError(f"nodes {nodes}: it must be 2 to 64")
    with console.one_line("calibrate", *kinds, code=FOUND):
        with progress() as step:
            found = (measuring.in_labs(request, hosts, ranks_per_node, step) if in_lab
                     else measuring.in_world(request, step, None if read is None else read.check))
            if found is None:
                raise typer.Exit(0)
        lost = None if interference is None else read_interference(interference, len(found.facts))
        document = calibration.document(calibration.calibrate(
            found.facts, found.points, lost, measuring.reduction_rates(), found.inside,
            None if read is None else read.parts))
        console.write_json(document, str(save_to))
        console.answer(document, json_to, show.calibration)
        for line in [] if read is None else read.slow:
            typer.echo(f"slow pair: {line}", err=True)
        typer.echo(f"calibration: {save_to}; use it: nezha sim collective --calibration {save_to}",
                   err=True)
