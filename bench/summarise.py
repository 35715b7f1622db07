#!/usr/bin/env python3
"""Prints Markdown tables from the JSON files that bench/figures.sh wrote.

    bench/summarise.py out/figures
"""

import json
import sys
from pathlib import Path
from typing import Any, Dict, List

HEADING = ("| library | size | time us | launches us | of limit % | busbw Gbit/s | CPU s/GB | "
           "shares | wrong |\n|---|---|---|---|---|---|---|---|---|")


def line(library: str, row: Dict[str, Any], spread: Dict[int, Dict[str, Any]]) -> str:
    """One row of a table."""
    between = spread.get(row["size"]) if library == "nezha" else None
    cells: List[str] = [
        library, str(row["size"]), f"{row['time_us']:.1f}",
        f"{between['min_us']:.1f}..{between['max_us']:.1f}" if between else "-",
        f"{100 * row['of_limit']:.1f}" if row["of_limit"] is not None else "-",
        f"{row['busbw_gbps']:.3f}",
        f"{row['cpu_s_per_gb']:.1f}" if row["cpu_s_per_gb"] is not None else "-",
        " ".join(f"{100 * rail['share']:.0f}" for rail in row["rails"]) or "-",
        str(row["wrong"])]
    return "| " + " | ".join(cells) + " |"


def main() -> None:
    """Every file in the directory named on the command line, in order of its name."""
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    for path in sorted(Path(sys.argv[1]).glob("*.json")):
        document = json.loads(path.read_text(encoding="utf-8"))
        config = document["config"]
        lab, host = config["lab"], config["host"]
        print(f"\n### {path.stem}: {config['ranks']} ranks, rails {', '.join(config['rails'])}\n")
        print(f"{lab['congestion_control']}, queue {lab['queue_ms']} ms, bursts "
              f"{lab['burst_bytes']} B, MTU {lab['mtu'][0]}; {host['cpus']} CPUs, Linux "
              f"{host['kernel']}; interface counters agree: {document['wire_check']['agree']}\n")
        print(HEADING)
        spread = {entry["size"]: entry for entry in document.get("spread", [])}
        peers = {name: entry["rows"] for name, entry in document.get("peers", {}).items()}
        for library, rows in {"nezha": document["rows"], **peers}.items():
            for row in rows:
                print(line(library, row, spread))


if __name__ == "__main__":
    main()
