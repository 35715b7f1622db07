"""`nezha sim aggregation`: an all_reduce through aggregation nodes, beside the algorithms of hosts."""

from __future__ import annotations

from pathlib import Path
from typing import Optional

import typer

from nezha_tools.cli import console, figures
from nezha_tools.cli.progress import progress
from nezha_tools.cli.errors import BenchError
from nezha_tools.cli.sizes import parse_size, size_list
from nezha.errors import Error
from nezha_tools.cli.errors import PlanError
from nezha_tools.cli.units import parse_rate
from . import options as options
from nezha_tools.cli.conventions import FOUND, WRONG_LINE, json_option

HELP = """An all_reduce through aggregation nodes, beside the algorithms of hosts.

Hosts send to their node over one rail; nodes make a tree of the given radix. Time over the hosts' rails,
through the nodes alone, and which way the library settles on: with several rails it may cut an operation
in two. docs/aggregation.md says what nodes are.

\b
Examples:
  nezha sim aggregation --nodes 4,16,64 --rates 10G:20us,10G:20us --rail 1
  nezha sim aggregation --nodes 4,16 --rates 10G:20us,10G:20us --rail 1 --plot out/nodes.png
  nezha sim aggregation --nodes 6 --rates 250Mbit/s:30us --radix 3
  nezha sim aggregation --nodes 16 --rates 25G:10us --port 100G --adds 12GB/s --json=out/nodes.json
"""


def aggregation(
    hosts: str = options.HOSTS,
    rates: Optional[str] = options.RATES,
    calibration: Optional[Path] = options.CALIBRATION,
    rail: int = typer.Option(0, "--rail", help="The rail that leads to the nodes."),
    radix: int = typer.Option(16, "--radix", help="Children of a node, 2 to 4096."),
    port: Optional[str] = typer.Option(None, "--port", help="RATE of a node's port (default: as much as "
                                       "its children's wires together)."),
    adds: Optional[str] = typer.Option(None, "--adds", help="What a node adds, such as 12GB/s (default: "
                                       "what a host does)."),
    minbytes: str = options.minbytes("64K"),
    maxbytes: str = options.maxbytes("64M"),
    factor: int = options.factor(4),
    algorithm: str = options.ALGORITHM,
    gap: str = options.GAP,
    plot_to: Optional[Path] = options.PLOT,
    json_to: Optional[str] = json_option(),
) -> None:
    from . import aggregation as trees, study_figures, show, sweep

    with console.one_line("sim aggregation", PlanError, Error, ValueError, code=WRONG_LINE):
        world = sweep.World(rates, calibration, gap)
        counts = sweep.counts("nodes", hosts)
        own = float(world.cluster(counts[0]).adds.min())
        nodes = trees.Nodes(radix, rail, None if port is None else parse_rate("port", port),
                            own if adds is None else parse_rate("adds", adds))
        sizes = size_list(parse_size(minbytes), parse_size(maxbytes), factor, 4)
        with progress() as step:
            document = trees.run(counts, sizes, world.cluster, nodes, algorithm, step)
    with console.one_line("sim aggregation", PlanError, BenchError, ValueError, code=FOUND):
        console.answer(document, json_to, show.aggregation)
        figures.answer(plot_to, lambda path: study_figures.aggregation(document, path,
                                                                       rates or str(calibration)))
