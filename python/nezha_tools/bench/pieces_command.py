"""`nezha bench pieces`: one all_reduce against the same bytes in many."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any, Callable, List, Optional

import typer

from ..cli.conventions import json_option
from ..cli.errors import BenchError
from ..cli.progress import Step
from ..cli.sizes import parse_size
from ..cli.values import CONFIG, read_rates, settings
from . import pieces_report
from .perform import builds_lab, perform
from .pieces_run import Request, run_in_lab, run_in_world

HELP = """Compare one all_reduce with the same bytes in many pieces: what small messages cost.

The vector is reduced at once, and then in equal pieces, submitted in three ways: back to back (each after
the one before has completed), asynchronous (all are submitted, then waited for) and coalesced (all in one
batch()). The time of a row is that of all pieces. The ratio says what frameworks lose that reduce every
gradient alone, and how much of it asynchronous or coalesced calls bring back. Results are checked element
by element; every element and every rank has values of its own.

\b
Examples:
  nezha bench pieces                                       1 x 64M against 16 x 4M in a lab of 4 nodes
  nezha bench pieces --size 64M --pieces 16,256,4096 --plot pieces.png
  nezha bench pieces --nodes 2 --rates 10gbit --size 1M --pieces 64 --json=pieces.json
  nezha run -H node1,node2 nezha bench pieces --size 4000M --pieces 1000    as it was published
"""
_TAKEN = {"rails": "the rails of the lab are those of --rates"}


def pieces(
    context: typer.Context,
    size: str = typer.Option("64M", "--size", help="Of the whole vector of float32."),
    pieces: str = typer.Option("16", "--pieces", help="Numbers of equal pieces, with commas."),
    nodes: Optional[int] = typer.Option(None, "--nodes", min=2, help="Nodes of the lab to build "
                                        "(default: 4; in a launched world none is built)."),
    rates_text: str = typer.Option("1gbit,1gbit", "--rates", help="One for each rail of the lab."),
    seconds: float = typer.Option(2.0, "--seconds", min=0.01, help="Of each row in each pass; at least "
                                  "5 operations are timed."),
    iterations: Optional[int] = typer.Option(None, "--iters", min=1, help="Timed operations of each row "
                                             "in each pass, in place of --seconds."),
    passes: int = typer.Option(1, "--passes", min=1, help="Runs of everything; the median counts."),
    config: List[str] = CONFIG,
    json_to: Optional[str] = json_option(),
    plot_to: Optional[Path] = typer.Option(None, "--plot", help="Write a picture of the bandwidths."),
) -> None:
    def prepare() -> Callable[[Step], Any]:
        in_lab = builds_lab(context, nodes)
        request = Request(parse_size(size), [_count(each) for each in pieces.split(",")], nodes or 4,
                          read_rates(rates_text), seconds, iterations, passes,
                          settings(config, _TAKEN if in_lab else {}))
        return partial(run_in_lab if in_lab else run_in_world, request)

    perform("bench pieces", prepare, lambda document: pieces_report.publish(document, json_to, plot_to))


def _count(text: str) -> int:
    if not text.isdecimal():
        raise BenchError(f"--pieces {text!r}: want numbers of pieces, such as 16,256")
    return int(text)
