"""`nezha bench switch` and `nezha bench table1`: what an aggregation node is worth."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Callable, Dict, List, Optional

import typer

from ..cli.errors import BenchError
from ..cli.progress import Step
from ..cli.sizes import parse_size
from . import aggregation_report
from .aggregation_run import Request, run_switch, run_table
from .perform import perform_in_labs
from ..cli.conventions import json_option
from ..cli.values import CONFIG, read_rates, settings

SWITCH_HELP = """Compare all_reduce over hosts with all_reduce through an aggregation node, 2 to 16 nodes.

A lab for each number of nodes; both ways use the same rail. Long operations go over each wire once
through the node, and 2(n-1)/n times over hosts; short ones take two hops instead of several.

\b
Examples:
  nezha bench switch
  nezha bench switch --nodes 4,6 --sizes 64M --plot switch.png
  nezha bench switch --nodes 6 --agg-tree 2x3
"""
TABLE_HELP = """Latency with fixed shares of two networks: each alone, 1:1, 99:1 and 1:99.

The table of the paper that Nezha began with: smallest, average and largest time of an operation, of 1000
operations, or of as many as fit into --seconds. Of an agg: rail the share is what goes through the node.

\b
Examples:
  nezha bench table1
  nezha bench table1 --rates 1gbit,1gbit --seconds 60
"""

_OWN = "the runs set it, to send the bytes where they want them"
_TAKEN = {"switch": dict.fromkeys(("aggregator", "aggregator_share", "rails"), _OWN),
          "table1": dict.fromkeys(("aggregator", "aggregator_share", "policy", "weights", "rails"), _OWN)}
_JSON = json_option()


def switch(
    nodes: str = typer.Option("2,4,8,16", "--nodes", help="Of each lab."),
    rate: str = typer.Option("agg:1gbit", "--rates", help="Of the one rail; an agg: one."),
    sizes: str = typer.Option("8,1K,8M,64M", "--sizes", help="Short and long."),
    seconds: float = typer.Option(1.0, "--seconds", min=0.01, help="Of each size in each run."),
    agg_tree: Optional[str] = typer.Option(None, "--agg-tree", metavar="LxN", help="A tree of them; "
                                           "then --nodes is one number."),
    config: List[str] = CONFIG, json_to: Optional[str] = _JSON,
    plot_to: Optional[Path] = typer.Option(None, "--plot", help="Write a picture of the ratios."),
) -> None:
    request = {"sizes": sizes, "nodes": nodes, "rails": rate, "seconds": seconds, "agg_tree": agg_tree,
               "config": config}
    _perform("switch", request, run_switch,
             lambda document: aggregation_report.publish_switch(document, json_to, plot_to))


def table1(
    nodes: int = typer.Option(4, "--nodes", min=2, help="Of the lab."),
    rates_text: str = typer.Option("1gbit,agg:1gbit", "--rates", help="One for each of the two rails."),
    sizes: str = typer.Option("1K,8M,64M", "--sizes", help="Of the all_reduces."),
    operations: int = typer.Option(1000, "--operations", min=5, help="Of each size in each run, at "
                                   "most."),
    seconds: float = typer.Option(10.0, "--seconds", min=0.01, help="The same, in time."),
    config: List[str] = CONFIG, json_to: Optional[str] = _JSON,
) -> None:
    request = {"sizes": sizes, "nodes": str(nodes), "rails": rates_text, "seconds": seconds,
               "operations": operations, "config": config}
    _perform("table1", request, run_table,
             lambda document: aggregation_report.publish_table(document, json_to))


def _perform(name: str, given: Dict[str, Any], run: Callable[[Request, Step], Dict[str, Any]],
             publish: Callable[[Dict[str, Any]], int]) -> None:
    def request() -> Request:
        return Request(**{**given, "config": settings(given["config"], _TAKEN[name]),
                          "sizes": [parse_size(size) for size in given["sizes"].split(",")],
                          "nodes": _numbers(given["nodes"]), "rails": read_rates(given["rails"])})

    perform_in_labs(f"bench {name}", request, run, publish)


def _numbers(text: str) -> List[int]:
    numbers = [int(word) for word in text.split(",") if word.strip().isdecimal()]
    if not numbers or len(numbers) != len(text.split(",")) or min(numbers) < 2:
        raise BenchError(f"--nodes {text!r}: want numbers from 2 on, such as 2,4,8,16")
    return numbers
