"""The report of `nezha bench messages`: a table, and sentences about what it shows."""

from __future__ import annotations

import sys
from typing import Any, Dict, List, Optional

from ..cli import console
from .collective_table import lab_line
from ..cli.sizes import format_size


def publish(document: Dict[str, Any], json_to: Optional[str]) -> int:
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
