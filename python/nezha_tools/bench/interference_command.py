"""`nezha bench interference`: every rail alone, in pairs and all together."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any, Callable, List, Optional

import typer

from ..cli.progress import Step
from . import interference_report
from .perform import builds_lab, perform
from .interference_run import Request, run_in_lab, run_in_world
from ..cli.sizes import parse_size, size_list
from ..cli.conventions import json_option
from ..cli.values import CONFIG, read_rates, settings

HELP = """Measure startup, rate and interference of rails: alone, in pairs and together.

Shares of 99:1, 1:99, even, and with either rail as the last one to be done. The result is each rail's
startup and rate, the part of its rate that it loses beside each other rail, and what splitting an
operation costs; and for each pair whether the slower rail still helps. `nezha calibrate --interference`
takes the saved matrix into the file that jobs use (NEZHA_CALIBRATION_FILE).

\b
Examples:
  nezha bench interference --rates 1gbit,500mbit --plot interference.png
  nezha run -n 2 -- nezha bench interference                on the rails of these hosts
"""


_OWN = "the runs set it, to divide the bytes in ways of their own"
_TAKEN = {"policy": _OWN, "weights": _OWN, "algorithm": "all runs are rings",
          "rails": "every rail is measured; leave some out with NEZHA_RAILS in a launched world"}


def interference(
    context: typer.Context,
    nodes: Optional[int] = typer.Option(None, "--nodes", min=2, help="Nodes of the lab to build "
                                        "(default: 2; in a launched world none is built)."),
    rates_text: str = typer.Option("1gbit,1gbit", "--rates", help="One for each rail of the lab."),
    minbytes: str = typer.Option("512K", "-b", "--minbytes", help="Smallest size: startups and the "
                                 "cost of splitting show in it."),
    maxbytes: str = typer.Option("32M", "-e", "--maxbytes", help="Largest size: rates show in it."),
    factor: int = typer.Option(4, "-f", "--stepfactor", help="Each size is so many times the one "
                               "before."),
    seconds: float = typer.Option(0.5, "--seconds", min=0.01, help="Of each size in each run."),
    passes: int = typer.Option(2, "--passes", min=1, help="Runs of everything; the quickest of each "
                               "counts, since a busy host only slows."),
    config: List[str] = CONFIG,
    save_to: Path = typer.Option(Path("out/interference.json"), "--save",
                                 help="Where the matrix goes."),
    json_to: Optional[str] = json_option(),
    plot_to: Optional[Path] = typer.Option(None, "--plot", help="Write a picture of the matrix."),
) -> None:
    def prepare() -> Callable[[Step], Any]:
        in_lab = builds_lab(context, nodes)
        sizes = size_list(parse_size(minbytes), parse_size(maxbytes), factor, 4)
        request = Request(sizes, nodes or 2, read_rates(rates_text), seconds, passes,
                          settings(config, _TAKEN))
        return partial(run_in_lab if in_lab else run_in_world, request)

    perform("bench interference", prepare,
            lambda document: interference_report.publish(document, save_to, json_to, plot_to))
