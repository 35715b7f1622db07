"""The summary: one line of JSON a campaign, and a table."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any, Dict, List, Sequence

from rich.console import Console
from rich.table import Table

from campaigns.campaign import Campaign, Record
from campaigns.measure import Figure, percentile


def summary(campaign: Campaign, record: Record, seed: int) -> Dict[str, Any]:
    """Everything there is to say about one campaign, ready for JSON."""
    figures: List[Figure] = []
    if record.samples:
        figures = campaign.figures(record)
    if record.form != "short":
        figures.insert(0, Figure("faults", float(len(record.samples)), float(record.wanted), "",
                                 at_least=True))
    noise = percentile(record.noise, 0.99)
    return {
        "campaign": campaign.id, "title": campaign.title, "form": record.form, "seed": seed,
        "faults": len(record.samples), "wanted": record.wanted, "operations": record.checked,
        "seconds": round(record.seconds, 1), "violations": record.violations,
        "notes": record.notes, "noise_p99_ms": None if noise is None else noise * 1e3,
        "figures": [{**asdict(figure), "met": figure.met} for figure in figures],
        "verdict": verdict(record, figures),
    }


def verdict(record: Record, figures: Sequence[Figure]) -> str:
    """BROKEN: wrong in any form. MISSED: right, but a figure is not reached."""
    if record.violations or (len(record.samples) < record.wanted and record.form == "short"):
        return "BROKEN"
    return "reached" if all(figure.met for figure in figures) else "MISSED"


def write(result: Dict[str, Any], folder: Path) -> None:
    """Replaces the campaign's line."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{result['campaign']}.json"
    path.write_text(json.dumps(result) + "\n", encoding="utf-8")


def _number(value: Any) -> str:
    if value is None:
        return "-"
    return f"{value:.0f}" if value == int(value) or abs(value) >= 100 else f"{value:.3g}"


def table(results: Sequence[Dict[str, Any]]) -> Table:
    """One row a figure."""
    made = Table(title="Fault campaigns")
    for name in ("", "campaign", "faults", "operations", "figure", "reached", "target", ""):
        made.add_column(name, justify="right" if name in ("faults", "operations", "reached",
                                                          "target") else "left")
    for result in results:
        head = [result["campaign"], result["title"], f"{result['faults']}/{result['wanted']}",
                str(result["operations"])]
        for figure in result["figures"] or [None]:
            if figure is None:
                made.add_row(*head, "", "", "", result["verdict"])
                continue
            sign = "" if figure["target"] is None else ">= " if figure["at_least"] else "<= "
            target = sign + _number(figure["target"]) if sign else ""
            made.add_row(*head, figure["name"], f"{_number(figure['reached'])} {figure['unit']}",
                         target, "" if figure["met"] else "MISSED")
            head = ["", "", "", ""]
        made.add_section()
    return made


def show(results: Sequence[Dict[str, Any]], console: Console) -> None:
    """Table, and what was wrong."""
    console.print(table(results))
    for result in results:
        if result["noise_p99_ms"] is not None:
            console.print(f"{result['campaign']}: fault-free operations exceed their median by up to "
                          f"{result['noise_p99_ms']:.1f} ms (p99) on this machine as it is loaded")
        for violation in result["violations"]:
            console.print(f"[bold red]{result['campaign']} BROKEN[/]: ", end="")
            console.print(violation, markup=False)
