"""`nezha bench p2p`: rate and latency between every two ranks, on every rail alone."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any, Callable, List, Optional

import typer

from ..cli.conventions import json_option
from ..cli.progress import Step
from ..cli.sizes import parse_size
from ..cli.values import CONFIG, read_rates, settings
from . import p2p_report
from .p2p_run import Request, run_in_lab, run_in_world
from .perform import builds_lab, perform

HELP = """Find the slow port: rate and latency between every two ranks, on every rail alone.

Three matrices for each rail, of the rate one way, the rate both ways at the same time, and the latency.
Pairs take turns, so a cell is what the rail does for two ranks alone; n ranks take about 2 n (n - 1)
times --seconds for each rail. The diagonal is a copy in the host's own memory. A cell below half of the
rail's usual rate (above twice its usual latency) is marked, and a sentence says which port of which host
is slow. Usual is the median over the ranks of the best cell of each. Contents of messages are checked.

\b
Examples:
  nezha bench p2p                                          in a lab of 4 nodes and 2 rails
  nezha bench p2p --nodes 3 --rates 200mbit,100mbit --plot p2p.png
  nezha run --hostfile hosts.txt nezha bench p2p --json=p2p.json     on the rails of these hosts
  nezha run -H node1,node2 nezha bench p2p --size 64M --seconds 2

A slow port in a lab, to see what is said of it:
\b
  nezha lab up --name a --nodes 3 --rates 100mbit
  nezha lab slow --name a 2 0 10mbit
  nezha run --lab a nezha bench p2p
"""
_TAKEN = {"rails": "every rail is measured; leave some out with NEZHA_RAILS in a launched world",
          "shm": "the runs set it to off, so that the rails are measured"}


def p2p(
    context: typer.Context,
    size: str = typer.Option("4M", "--size", help="Of a message, for the rates; latencies are those of 8 "
                             "bytes."),
    seconds: float = typer.Option(0.3, "--seconds", min=0.001, help="Of each rate and latency of each "
                                  "pair; two messages are sent at least."),
    nodes: Optional[int] = typer.Option(None, "--nodes", min=2, help="Nodes of the lab to build "
                                        "(default: 4; in a launched world none is built)."),
    rates_text: str = typer.Option("1gbit,1gbit", "--rates", help="One for each rail of the lab."),
    config: List[str] = CONFIG,
    json_to: Optional[str] = json_option(),
    plot_to: Optional[Path] = typer.Option(None, "--plot", help="Write a picture of the matrices."),
) -> None:
    def prepare() -> Callable[[Step], Any]:
        in_lab = builds_lab(context, nodes)
        request = Request(parse_size(size), seconds, nodes or 4, read_rates(rates_text),
                          settings(config, _TAKEN))
        return partial(run_in_lab if in_lab else run_in_world, request)

    perform("bench p2p", prepare, lambda document: p2p_report.publish(document, json_to, plot_to))
