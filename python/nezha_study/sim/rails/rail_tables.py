"""Tables of the study and of single runs, for people."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Dict, List, Sequence

from nezha_tools.cli import console
from nezha_tools.cli import figures
from nezha_tools.cli.sizes import format_size
from nezha.files import whole_folder
from . import rail_figures

Document = Dict[str, Any]


def runs(rows: Sequence[Document], title: str) -> None:
    """A table of runs, a line each."""
    console.section(title, [{
        "policy": _name(row), "load": f"{row['load']:g}", "accepted": f"{row['accepted']:.3f}",
        "GB/s a host": f"{row['rate_gb_s']:.3f}", "mean us": _us(row, "latency_us"),
        "median us": _us(row, "median_us"), "p95 us": _us(row, "p95_us"),
        "requests a message": f"{row['requests']:.1f}" if row["requests"] else "",
    } for row in rows], keys=2)


def study(document: Document) -> None:
    """What was found, beside the source; then a table for each experiment."""
    console.section("the source's statements and what was found here", [{
        "statement": each["what"], "source": console.text_of(each["source"]),
        "here": console.text_of(each["here"]),
        "same": "" if each["same_sign"] is None else "yes" if each["same_sign"] else "NO",
    } for each in document["findings"]])
    for each in document["experiments"]:
        _experiment(each)


def _experiment(document: Document) -> None:
    """Accepted load: a line for each policy, a column for whatever else differs."""
    table: Dict[str, Dict[str, str]] = {}
    columns: List[str] = []
    for row in document["rows"]:
        column = _column(document, row)
        table.setdefault(_name(row), {"accepted load": _name(row)})[column] = f"{row['accepted']:.3f}"
        columns.append(column)
    order = ["accepted load", *dict.fromkeys(columns)]
    console.section(document["title"], [{name: line.get(name, "") for name in order}
                                        for line in table.values()])


def _column(document: Document, row: Document) -> str:
    varied = {"hosts": f"{row['hosts']} hosts",
              "rails": f"{row['rails']} rail{'s' if row['rails'] > 1 else ''}",
              "means_bytes": "+".join(map(format_size, row["means_bytes"])),
              "load": f"at {row['load']:g}",
              "seed": f"seed {row['seed']}", "short_bytes": f"<{format_size(row['short_bytes'])}",
              "processes": f"{row['processes']} processes", "duplex": f"duplex {row['duplex']:g}",
              "control_us": f"control {row['control_us']:g} us",
              "backoff_us": f"pause {row['backoff_us']:g} us"}
    differ = [name for name in varied
              if len({json.dumps(each[name]) for each in document["rows"]}) > 1]
    if document["name"] == "assumptions":  # one at a time: say only what is not as usual
        usual = document["rows"][0]
        differ = [name for name in differ if row[name] != usual[name]]
    return " ".join(varied[name] for name in differ) or "as assumed"


def _name(row: Document) -> str:
    return str(row["policy"]) + (", striped" if row["striped"] else "")


def _us(row: Document, name: str) -> str:
    return f"{row[name]:.1f}" if name in row else ""


def prepare(folder: Path) -> None:
    """Finds out before minutes of computing whether write() will do. Raises BenchError without a library
    that draws, OSError where the folder cannot be written."""
    figures.drawing()
    with whole_folder(folder):
        pass


def write(document: Document, folder: Path) -> List[Path]:
    """Writes study.json and the pictures into `folder`, all of them or none. Returns their paths."""
    rows = {each["name"]: each for each in document["experiments"]}
    with whole_folder(folder) as place:
        rail_figures.against_load([rows["load_4k"], rows["load_64k"]], place / "rail_study_load.png")
        rail_figures.saturation(rows["hosts"]["rows"], rows["size"]["rows"], rows["rails"]["rows"],
                            place / "rail_study_saturation.png")
        rail_figures.against_load([rows["hybrid"], rows["mixed"], rows["static"]],
                              place / "rail_study_hybrid_static.png")
        (place / "study.json").write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
        names = sorted(each.name for each in place.iterdir())
    return [folder / name for name in names]
