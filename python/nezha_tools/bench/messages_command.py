"""`nezha bench messages`: which rail takes a message, measured; its table, and sentences about it."""

from __future__ import annotations

import sys
from typing import Any, Dict, List, Optional

import typer

from ..cli import console
from ..cli.errors import BenchError
from .collective_report import lab_line
from .message_run import Request, run
from .perform import perform_in_labs
from ..cli.sizes import format_size, parse_size
from ..cli.conventions import json_option
from ..cli.values import CONFIG, read_rates, settings

HELP = """Policies of choosing a message's rail under load: throughput, latency.

Every node of a lab sends messages of random sizes to random other nodes, at random times that make the
load. All policies get the same messages. A load of 1 is all that a node's rails carry one way. A policy
is saturated where it accepts less than is offered; latencies then only say how long the run was. What the
policies do is in docs/balancing.md (message_policy); `nezha sim rails` simulates them on more hosts, and
on buses that suffer from traffic both ways.

\b
Examples:
  nezha bench messages
  nezha bench messages --policy local_dynamic,dynamic,hybrid --mean 4K,16K,64K --load 0.2..0.95
  nezha bench messages --nodes 3 --rates 50mbit,50mbit,50mbit --policy static --mean 64K --json=runs.json
"""
_LOADS_OF_A_RANGE = 6
_TAKEN = {"message_policy": "--policy sets it", "rails": "the rails of the lab are those of --rates"}


def messages(
    policy: str = typer.Option("pull,round_robin,local_dynamic", "--policy", help="Some of pull, modulo, "
                               "round_robin, random, static, local_dynamic, local_dynamic_striped, "
                               "dynamic, hybrid."),
    mean: str = typer.Option("4K,16K,64K", "--mean", help="Mean sizes of messages, a run each."),
    load: str = typer.Option("0.2,0.5,0.8,0.95", "--load", help="What is offered, a run each; "
                             "0.2..0.95 are six loads from the first to the last."),
    nodes: int = typer.Option(4, "--nodes", min=2, help="Nodes of the lab to build."),
    rates_text: str = typer.Option("20mbit,20mbit,20mbit,20mbit", "--rates", help="One for each rail of "
                                   "the lab; so slow that a program in Python keeps up."),
    seconds: float = typer.Option(3.0, "--seconds", min=0.1, help="For which a run offers messages; the "
                                  "first 30 % are not measured."),
    seed: int = typer.Option(1, "--seed", min=0, help="The same seed, the same messages."),
    config: List[str] = CONFIG,
    json_to: Optional[str] = json_option(),
) -> None:
    perform_in_labs(
        "bench messages",
        lambda: Request(policy.split(","), [parse_size(each) for each in mean.split(",")],
                        [each for part in load.split(",") for each in _loads(part)], nodes,
                        read_rates(rates_text), seconds, seed, settings(config, _TAKEN)),
        run, lambda document: _publish(document, json_to))


def _loads(text: str) -> List[float]:
    """`0.5`, or `0.2..0.95`: from the first to the last in equal steps."""
    try:
        ends = [float(each) for each in text.split("..")]
    except ValueError:
        ends = []
    if len(ends) == 1:
        return ends
    if len(ends) != 2 or not ends[0] < ends[1]:
        raise BenchError(f"--load {text!r}: want numbers such as 0.2,0.5, or a range such as 0.2..0.95 "
                         "whose end is above its beginning")
    step = (ends[1] - ends[0]) / (_LOADS_OF_A_RANGE - 1)
    return [round(ends[0] + number * step, 4) for number in range(_LOADS_OF_A_RANGE)]


def _publish(document: Dict[str, Any], json_to: Optional[str]) -> int:
    """Prints and writes as asked. Returns the exit status: 1 where a message was wrong."""
    console.answer(document, json_to, _show)
    if document["wrong"]:
        print(f"{document['wrong']} WRONG MESSAGES", file=sys.stderr)
    return 1 if document["wrong"] else 0


def _show(document: Dict[str, Any]) -> None:
    config = document["config"]
    console.sentences([
        f"# nezha bench messages: random pairs of {config['nodes']} nodes, rails "
        f"{','.join(config['rails'])}, {config['seconds']:g} s a run; a load of 1 is all that a node's "
        "rails carry one way",
        lab_line(config["lab"])])
    console.table(["mean", "load", "policy", "messages", "accepted", "mean\nus", "median\nus", "p99\nus",
                   "late\nus", "rails\n%"], cells(document), keys=3)
    console.sentences(sentences(document))


def cells(document: Dict[str, Any]) -> List[List[str]]:
    """The lines of the table: policies beside each other for each mean and load."""
    rows = sorted(document["results"], key=lambda row: (row["mean"], row["load"]))
    return [[format_size(row["mean"]), f"{row['load']:g}", row["policy"], str(row["messages"]),
             f"{row['accepted']:.3f}", f"{row['mean_us']:.0f}", f"{row['median_us']:.0f}",
             f"{row['p99_us']:.0f}", f"{row['late_us']:.0f}",
             " ".join(f"{100 * share:.0f}" for share in row["shares"])] for row in rows]


def sentences(document: Dict[str, Any]) -> List[str]:
    """For each mean the policy that accepted most at the highest load; and runs that say nothing."""
    lines = []
    for mean in sorted({row["mean"] for row in document["results"]}):
        rows = [row for row in document["results"] if row["mean"] == mean]
        top = max(row["load"] for row in rows)
        best = max((row for row in rows if row["load"] == top), key=lambda row: float(row["accepted"]))
        lines.append(f"{format_size(mean)}: at load {top:g} {best['policy']} accepts most, "
                     f"{best['accepted']:.3f} of {best['offered']:.3f} offered")
    late = [f"{row['policy']} {format_size(row['mean'])} {row['load']:g}" for row in document["results"]
            if row["late_us"] > row["median_us"]]
    if late:
        lines.append("THE PROGRAM WAS LATE, more than the median message took, so that these say little "
                     f"of the rails: {', '.join(late)}. Give slower rails (--rates), or fewer nodes")
    return lines
