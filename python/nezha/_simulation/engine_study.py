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

from .._figures import COLORS, against_size, drawing, write
from .._bench.collective_run import Step
from .._bench.spec import BenchSpec, Sample
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
    """A panel for each case: measured points, predicted lines, a colour for each count of hosts."""
    pyplot = drawing()
    cases = document["cases"]
    figure, axes = pyplot.subplots(1, len(cases), figsize=(5.2 * len(cases), 4.8), dpi=150, squeeze=False)
    for panel, case in zip(axes[0], cases):
        rows = [row for row in case["rows"] if row["algorithm"] == "ring"]
        for index, hosts in enumerate(sorted({row["hosts"] for row in rows})):
            found = [row for row in rows if row["hosts"] == hosts]
            sizes = [row["size"] for row in found]
            panel.plot(sizes, [row["predicted_us"] for row in found], color=COLORS[index],
                       label=f"{hosts} hosts, predicted")
            panel.scatter(sizes, [row["measured_us"] for row in found], facecolors="none",
                          edgecolors=COLORS[index], s=60, label="measured")
        against_size(panel, sorted({row["size"] for row in rows}), " + ".join(case["rails"]))
        panel.set_yscale("log")
        panel.set_ylabel("time of a ring all_reduce (us)")
        panel.legend(frameon=False, fontsize=8)
    write(figure, path)
