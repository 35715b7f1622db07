"""How far the engine is off: costs fitted to worlds of 2 and 3 hosts, times predicted for larger ones.

What is compared was not fitted: other counts of hosts, other sizes, all rails together. `measured` and
`predicted` meet in one document, from which the table and the picture are made. `load`: processes
that wanted a processor, for each of them, over the last 15 minutes, the ranks' own included.
"""

from __future__ import annotations

import os
from pathlib import Path
from statistics import median
from typing import Any, Dict, List, Optional, Sequence

from nezha_tools.cli.figures import against_size, curve, drawing, write
from nezha_tools.cli.progress import Step
from nezha_tools.bench.spec import BenchSpec, Sample
from . import measuring
from .calibration import Calibration, calibrate, document as calibration_document
from .fit import predicted

FITTED_HOSTS = (2, 3)
FITTED_SIZES = (256 << 10, 1 << 20, 4 << 20)
ASKED_SIZES = (256 << 10, 512 << 10, 2 << 20, 8 << 20)
CASES = (("200mbit", "200mbit"), ("200mbit", "100mbit"), ("200mbit", "100mbit", "100mbit"))


def run(cases: Sequence[Sequence[str]], hosts: Sequence[int], seconds: float, passes: int,
        step: Step) -> Dict[str, Any]:
    """Measures, fits and predicts all cases. The document."""
    found = [_case(list(rails), hosts, seconds, passes, step) for rails in cases]
    rows = [row for case in found for row in case["rows"]]
    by_size = []
    for size in ASKED_SIZES:
        errors = [abs(row["error"]) for row in rows if row["size"] == size]
        by_size.append({"size": size, "median_error": median(errors), "worst_error": max(errors)})
    every = [abs(row["error"]) for row in rows]
    return {"cases": found, "median_error": median(every), "worst_error": max(every), "by_size": by_size,
            "load": os.getloadavg()[2] / (os.cpu_count() or 1),
            "fitted": {"hosts": list(FITTED_HOSTS), "sizes": list(FITTED_SIZES), "rails": "each alone"}}


def _case(rails: List[str], hosts: Sequence[int], seconds: float, passes: int,
          step: Step) -> Dict[str, Any]:
    request = measuring.Request(list(FITTED_SIZES), rails, seconds, passes)
    points = []
    for count in FITTED_HOSTS:
        facts, more = measuring.in_lab(request, count, step)
        points += more
    costs = calibrate(facts, points)
    asked = measuring.Request(list(ASKED_SIZES), rails, seconds, passes)
    rows: List[Dict[str, Any]] = []
    for count in hosts:
        with measuring.lab(asked, count) as lab:
            advance = step(f"{', '.join(rails)}: {count} hosts", 2 * passes * (len(ASKED_SIZES) + 1))

            def all_rails(spec: BenchSpec, rail: Optional[int]) -> List[Sample]:
                return lab.run(spec, advance, rail)

            for algorithm in ("ring", None):
                rows += [_row(costs, point) for point in measuring.together(
                    all_rails, asked, count, len(rails), algorithm)]
    return {"rails": rails, "calibration": calibration_document(costs), "rows": rows}


def _row(costs: Calibration, point: Any) -> Dict[str, Any]:
    seconds = predicted(costs.cluster(point.hosts), point, costs.nominal)
    return {"hosts": point.hosts, "size": point.size, "algorithm": point.algorithm,
            "measured_us": 1e6 * point.seconds, "predicted_us": 1e6 * seconds,
            "error": seconds / point.seconds - 1}


def plot(document: Dict[str, Any], path: Path) -> None:
    """The error: a panel for each case, a colour for each count of hosts."""
    pyplot = drawing()
    cases = document["cases"]
    figure, axes = pyplot.subplots(1, len(cases), figsize=(5.2 * len(cases), 4.8), dpi=150, squeeze=False,
                                   sharey=True)
    for panel, case in zip(axes[0], cases):
        panel.axhline(0, color="#444444", linewidth=1)
        for index, hosts in enumerate(sorted({row["hosts"] for row in case["rows"]})):
            for algorithm, dashes in (("ring", "-"), ("auto", "--")):
                found = [row for row in case["rows"]
                         if row["hosts"] == hosts and row["algorithm"] == algorithm]
                panel.plot([row["size"] for row in found], [100 * row["error"] for row in found],
                           **curve(index), linestyle=dashes, markersize=5,
                           label=f"{hosts} hosts, {algorithm}")
        against_size(panel, sorted({row["size"] for row in case["rows"]}), " + ".join(case["rails"]))
        panel.legend(frameon=False, fontsize=8, ncols=2, loc="lower right")
    axes[0][0].set_ylabel("predicted against measured time (%)")
    write(figure, path)
