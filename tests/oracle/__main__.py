"""`PYTHONPATH=tests python -m oracle [--json]`: nezha sim beside SimGrid, as a table."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from statistics import median
from typing import Dict, List

from oracle import simgrid
from oracle.simgrid import Compared
from rich.console import Console
from rich.progress import track


def _key(found: Compared) -> str:
    case = found.case
    rails = "1 rail" if len(case.rails) == 1 else ("2 rails" if case.rails[0] == case.rails[1]
                                                   else "2 unequal rails")
    return f"| {found.case.kind} | {rails} | {case.hosts} "


def main() -> int:
    """Runs all cases; one line for each kind, rails and count of hosts."""
    if not simgrid.HEADER.exists():
        print("SimGrid is not installed (as root: apt-get install libsimgrid-dev)", file=sys.stderr)
        return 1
    with tempfile.TemporaryDirectory() as folder:
        program = simgrid.build(Path(folder))
        cases = track(simgrid.every_case(), "cases", console=Console(stderr=True))
        found = [simgrid.compare(case, program) for case in cases]
    if "--json" in sys.argv:
        print(simgrid.text(found))
        return 0
    groups: Dict[str, List[Compared]] = {}
    for each in found:
        groups.setdefault(_key(each), []).append(each)
    print("| | rails | hosts | cases | median | worst | which one |\n|---|---|---|---|---|---|---|")
    for key, alike in groups.items():
        worst = max(alike, key=lambda each: abs(each.difference))
        which = f"{worst.case.collective} by {worst.case.algorithm}, {worst.case.size >> 10} KiB"
        print(f"{key}| {len(alike)} | {100 * median(abs(each.difference) for each in alike):.1f} % "
              f"| {100 * abs(worst.difference):.1f} % | {which} |")
    return 0


if __name__ == "__main__":
    sys.exit(main())
