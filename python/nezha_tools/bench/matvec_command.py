"""`nezha bench matvec`: a matrix-vector product whose ranks share hosts, flat and by host."""

from __future__ import annotations

from pathlib import Path
from typing import List, Optional

import typer

from ..cli.errors import BenchError
from . import matvec_report
from .perform import perform_in_labs
from .matvec_run import Request, run
from ..cli.sizes import parse_size
from ..cli.conventions import json_option
from ..cli.values import CONFIG, read_rates, settings

HELP = """y = A x again and again, A by rows: strong and weak scaling, hosts of several ranks.

In each iteration an all_gather makes the whole vector out of the ranks' parts, and every rank multiplies
its rows by it: the kernel with which hierarchical all_gathers are compared (MHA, ICPP workshops 2022).
Strong scaling: the same matrix for more hosts. Weak scaling: as many columns for each host, so that a
rank keeps as many elements and as long a part of the vector.

Every number of --nodes is a lab. In each, ranks that count as hosts of their own (flat, hierarchy=off)
and ranks that go by host are launched in turn. Results are checked element by element.

\b
Examples:
  nezha bench matvec
  nezha bench matvec --nodes 2,4 --ranks-per-node 4 --scaling strong --plot out/matvec.png
  nezha bench matvec --rows 1024 --columns 32K --nodes 1,2,4             as in the paper; mostly computing
  nezha bench matvec --nodes 1,2 --config shm=auto --json=matvec.json
"""
_TAKEN = {"hierarchy": "both forms are measured", "rails": "the rails of the lab are those of --rates"}


def matvec(
    scaling: str = typer.Option("strong,weak", "--scaling", help="strong, weak or both."),
    nodes: str = typer.Option("1,2,4", "--nodes", help="Hosts, a lab each."),
    ranks_per_node: int = typer.Option(2, "--ranks-per-node", min=1, help="Ranks on each host."),
    rows: int = typer.Option(32, "--rows", min=1, help="Of the matrix, for all ranks together."),
    columns: str = typer.Option("64K", "--columns", help="Of the matrix, with the fewest hosts."),
    rates_text: str = typer.Option("200mbit,200mbit", "--rates", help="One for each rail of the labs."),
    launches: int = typer.Option(3, "--launches", min=1, help="Of each form, in turn."),
    iterations: Optional[int] = typer.Option(None, "--iters", min=2, help="Timed iterations of a "
                                             "launch (default: 1 s, 5 to 1000 of them)."),
    config: List[str] = CONFIG,
    json_to: Optional[str] = json_option(),
    plot_to: Optional[Path] = typer.Option(None, "--plot", help="Write a picture: time against ranks."),
) -> None:
    perform_in_labs(
        "bench matvec",
        lambda: Request(scaling.split(","), [_hosts(each) for each in nodes.split(",")], ranks_per_node,
                        rows, parse_size(columns), read_rates(rates_text), launches, iterations,
                        settings(config, _TAKEN)),
        run, lambda document: matvec_report.publish(document, json_to, plot_to))


def _hosts(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise BenchError(f"--nodes {text!r}: want numbers of hosts, such as 1,2,4")
    return int(text)
