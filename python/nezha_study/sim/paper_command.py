"""`nezha sim paper`: the Nezha paper's combinations of rails, on 4 to 20,000 hosts."""

from __future__ import annotations

from typing import Any, Dict, Optional

import typer

from nezha_tools.cli import console
from nezha_tools.cli.progress import progress
from nezha_tools.cli.sizes import parse_size, size_list
from nezha.errors import Error
from nezha_tools.cli.errors import PlanError
from . import options as options
from nezha_tools.cli.conventions import FOUND, WRONG_LINE, json_option

HELP = """The Nezha paper's combinations of rails: what the balancer converges to, in how many operations.

TCP and TCP, TCP and RDMA, TCP and switches that add up, with rates that follow from what the paper
measured, on its sizes of clusters and far beyond. Its numbers fit together only if its sizes count
elements of four bytes: docs/simulation_study.md has the source of each constant. 20,000 hosts take most
of the time: minutes for each combination.

\b
Examples:
  nezha sim paper --json=out/paper.json
  nezha sim paper --nodes 4,6,8,128
"""


def paper(
    hosts: str = typer.Option("4,6,8,128,20000", "--nodes", help="How many, or several counts."),
    minbytes: str = options.minbytes("512K"),
    maxbytes: str = options.maxbytes("32M"),
    factor: int = options.factor(8),
    json_to: Optional[str] = json_option(),
) -> None:
    from . import paper as papers, sweep

    with console.one_line("sim paper", PlanError, Error, ValueError, code=WRONG_LINE):
        sizes = size_list(parse_size(minbytes), parse_size(maxbytes), factor, 4)
        with progress() as step:
            document = papers.run(sweep.counts("nodes", hosts), sizes, step)
    with console.one_line("sim paper", PlanError, ValueError, code=FOUND):
        console.answer(document, json_to, _show)


def _show(document: Dict[str, Any]) -> None:
    from . import show

    for each in document["combinations"]:
        console.sentences([f"{each['name']}, {each['rates']}"])
        (show.aggregation if each["through_nodes"] else show.balancer)(each)
