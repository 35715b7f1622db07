"""`nezha study`: what others have published, measured again on this machine."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any, Dict, List, Optional

import typer

from nezha_tools.bench.perform import perform_in_labs
from nezha_tools.cli import console
from nezha_tools.cli.conventions import FOUND, App, json_option
from nezha_tools.cli.errors import BenchError
from nezha_tools.cli.sizes import parse_size
from nezha_tools.lab import parse_rate

PAPER_HELP = """The Nezha paper's evaluation on this machine: pictures and tables beside its numbers.

Builds labs of network namespaces, one after the other, with rails as fast as this machine can shape. TCP,
libfabric and aggregation nodes stand for the paper's TCP, GLEX and SHARP. Takes up to an hour on two
processors. What was measured is kept in --out and not measured again, so the command may be interrupted
and called again. A wrong element anywhere ends it.

\b
Figures: fig5, border (cold and hot start), table1, table2, fig7, fig6 (rates of ports), fig11
(processors), version2 (Gloo, MPTCP, fail-over), table3, fig8 (training), fig9 (its sizes), fig10
(shares of 99:1 in it), table4 (more adapters, more accelerators).

\b
Examples:
  nezha study paper
  nezha study paper --only fig5,table1 --nodes 2,4
  nezha study paper --only fig5 --nodes 2 -e 1M --seconds 0.1 --out out/try
"""
_NODES_MIN, _NODES_MAX = 2, 16

app = App(no_args_is_help=True, help="Repeat published measurements on this machine.")


@app.callback()
def _study() -> None:
    """Makes `paper` a command of a group, although it is the only one."""


@app.command("paper", help=PAPER_HELP)
def paper(
    only: Optional[str] = typer.Option(None, "--only", metavar="FIGURES", help="Only these, such as "
                                       "fig5,table1 (default: all)."),
    nodes: str = typer.Option("2,4,6", "--nodes", help="Of the labs; the paper's by default."),
    out: Path = typer.Option(Path("out/paper"), "--out", help="Folder of the pages and of what was "
                             "measured."),
    rate: Optional[str] = typer.Option(None, "--rate", help="Of every rail, such as 500mbit (default: "
                                       "the fastest at which processors are not the limit)."),
    largest: Optional[str] = typer.Option(None, "-e", "--maxbytes", help="Largest size (default: 64M, or "
                                          "16M where that takes longer than --minutes)."),
    seconds: float = typer.Option(0.5, "--seconds", min=0.01, help="Of timed operations for each size."),
    minutes: float = typer.Option(60.0, "--minutes", min=0.1, help="Begin no measurement that would end "
                                  "later."),
    fresh: bool = typer.Option(False, "--fresh", help="Measure again what was measured before."),
    json_to: Optional[str] = json_option(),
) -> None:
    from . import evaluation

    def request() -> evaluation.Request:
        return evaluation.Request(
            evaluation.chosen(only), counts(nodes), out, None if rate is None else megabits(rate),
            None if largest is None else parse_size(largest), seconds, minutes, fresh)

    perform_in_labs("study paper", request, evaluation.evaluate,
                    lambda document: _publish(document, json_to))


def counts(text: str) -> List[int]:
    """Numbers of nodes, ascending, each once: `2,4,6`. Raises BenchError."""
    words = [word.strip() for word in text.split(",")]
    if not all(word.isdecimal() and _NODES_MIN <= int(word) <= _NODES_MAX for word in words):
        raise BenchError(f"--nodes {text!r}: want numbers from {_NODES_MIN} to {_NODES_MAX}, such as "
                         "2,4,6")
    return sorted({int(word) for word in words})


def megabits(text: str) -> int:
    """Mbit/s of `500mbit`. Raises BenchError where it is no whole number of them, LabError where it is no
    rate."""
    bits = parse_rate(text)
    if bits == 0 or bits % 10**6:
        raise BenchError(f"--rate {text!r}: want a whole number of Mbit/s, such as 500mbit")
    return bits // 10**6


def _publish(document: Dict[str, Any], json_to: Optional[str]) -> int:
    """Prints and writes as asked. The exit status: 1 where the time was over."""
    console.answer(document, json_to, _show)
    if not document["complete"]:
        print(document["notes"][-1], file=sys.stderr)
    return 0 if document["complete"] else FOUND


def _show(document: Dict[str, Any]) -> None:
    for figure in document["figures"].values():
        if figure["claims"]:
            console.table(["the paper", "measured here", "verdict"],
                          [[each["says"], each["found"], each["verdict"]] for each in figure["claims"]])
        console.sentences([f"{figure['title']}: {figure['line']}", ""])
    console.sentences([*document["notes"], *(f"page: {path}" for path in document["pages"])])
