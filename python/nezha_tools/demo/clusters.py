"""The demonstration: what a second network is worth, in one table, one picture and one training.

Three labs of four nodes (one rail, two equal ones, one and a half), a short list of sizes in each, the
labs in turns; then a small network trained on real data over one rail and over two. The rate of a rail is
the highest of a ladder at which this machine's wires, and not its processors, are the limit. Where torch
is installed its Gloo is measured beside. Where namespaces are not allowed the labs are loopback
addresses: everything still runs, and the output says that nothing was shaped.
"""

from __future__ import annotations

import importlib.util
import json
import sys
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Dict, List, Mapping, Optional, Tuple

from ..lab import Capacity
from ..cli.errors import BenchError
from ..bench.cores import allowed
from ..bench.shaping_choice import of_limit_holds
from ..bench.fastest_rate import LADDER, fastest_rate
from ..bench.lab_runner import BenchLab
from ..bench.libraries import find_peers
from ..bench.collective_plot import plot
from ..bench.rows import Row, gains, total_wrong
from ..cli.progress import Step
from ..cli.sizes import format_size
from ..bench.spec import BenchSpec, Sample

NODES = 4
GLOO = "Gloo (torch)"
_SIZES = [4, 4 << 10, 64 << 10, 256 << 10, 1 << 20, 8 << 20, 32 << 20]
_LAUNCHES = 3  # their median: four ranks on few cores fall into step in more ways than one
_SECONDS = 0.5  # a size: the whole demonstration is to take a minute or two


@dataclass
class Training:
    """The training runs. Speeds in images per second; `difference` relative, of the loss."""

    one_rail: float
    two_rails: float
    last_loss: float
    difference: float


@dataclass
class Demo:
    """Everything the demonstration measured."""

    rows: Dict[str, List[Row]]  # by the labs' names, one rail first
    gloo: Optional[List[Row]]  # on one rail of two; None where torch is not installed
    capacity: Optional[Capacity]  # of two equal rails; None where nothing is shaped
    training: Optional[Training]
    skipped: List[str]

    @property
    def ok(self) -> bool:
        """Whether every checked result was right."""
        return not any(total_wrong(rows) for rows in self.rows.values())


def run_demo(step: Step, example: Path) -> Demo:
    """Measures everything. Raises BenchError or LabError where even the bench cannot run."""
    demo = Demo(rows={}, gloo=None, capacity=None, training=None, skipped=[])
    mbits, demo.capacity = fastest_rate(NODES, 2, step("what this machine can shape", len(LADDER)))
    with ExitStack() as stack:
        labs = {" + ".join(map(_short, rates)):
                stack.enter_context(BenchLab(NODES, [f"{rate}mbit" for rate in rates]))
                for rates in ([mbits], [mbits, mbits], [mbits, mbits // 2])}
        _measure(demo, labs, step)
        both = list(labs.values())[1]
        _add_gloo(demo, both, step)
        _add_training(demo, both, example)
    return demo


def _measure(demo: Demo, labs: Mapping[str, BenchLab], step: Step) -> None:
    """The labs in turns: a machine that becomes slower or faster meanwhile does so for all of them."""
    bars = {name: step(f"rails {name}", _LAUNCHES * len(_SIZES)) for name in labs}
    specs = {name: _spec(lab) for name, lab in labs.items()}
    launches: Dict[str, List[List[Sample]]] = {name: [] for name in labs}
    for _ in range(_LAUNCHES):
        for name, lab in labs.items():
            launches[name].append(lab.run(specs[name], bars[name]))
    for name, lab in labs.items():
        demo.rows[name] = lab.rows(specs[name], launches[name])


def _spec(lab: BenchLab) -> BenchSpec:
    return BenchSpec(sizes=_SIZES, seconds=_SECONDS, rates=lab.rates())


def _short(mbits: int) -> str:
    return f"{mbits}M" if mbits < 500 else f"{mbits / 1000:g}G"


def _add_gloo(demo: Demo, lab: BenchLab, step: Step) -> None:
    runners, _ = find_peers(["gloo"], None)
    if not runners:
        demo.skipped.append("Gloo beside Nezha: torch is not installed")
        return
    spec, done = _spec(lab), step("Gloo", len(_SIZES))
    demo.gloo = lab.rows(spec, [lab.shaped(spec, lambda part: runners["gloo"](lab, part, done))],
                         "gloo")


def _add_training(demo: Demo, lab: BenchLab, example: Path) -> None:
    if not example.exists():
        demo.skipped.append(f"training: {example} is not there; run from the repository's root")
        return
    if importlib.util.find_spec("sklearn") is None:
        demo.skipped.append("training: pip install scikit-learn for its bundled digits")
        return
    one = _train(lab, example, rail=0)
    two = _train(lab, example, rail=None)
    demo.training = Training(one["images_per_s"], two["images_per_s"], two["losses"][-1],
                             max(one["difference"], two["difference"]))


def _train(lab: BenchLab, example: Path, rail: Optional[int]) -> Dict[str, Any]:
    """Runs the example on every node; the result of rank 0. Raises BenchError."""
    result = lab.scratch / f"training-{rail}.json"
    command = [sys.executable, str(example), "--check", "--json", str(result)]
    environments = []
    for node in range(lab.nodes):
        # The ranks share this machine's cores: one thread each, or they fight over them.
        environment = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
        if rail is not None:
            environment["NEZHA_RAILS"] = lab.rail_filter(node, rail)
        environments.append(environment)
    lab.launch(command, environments)
    try:
        return json.loads(result.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise BenchError(f"{example} left no result: {error}") from error


def report_lines(demo: Demo) -> List[str]:
    """The sentences under the table."""
    lines = []
    if demo.capacity is None:
        lines.append("No network namespaces here: loopback addresses, nothing is shaped, and the "
                     "times compare nothing but overhead.")
    else:
        lines.append(f"Wires: {demo.capacity.sentence()}.")
    if demo.training is not None:
        training = demo.training
        lines.append(f"Training on digits, {NODES} nodes: {training.one_rail:.0f} images/s on one "
                     f"rail, {training.two_rails:.0f} on two "
                     f"({training.two_rails / training.one_rail:.2f} x)")
        lines.append(f"Last loss {training.last_loss:.6f}, the same as one process within "
                     f"{training.difference:.1e}")
    lines += [f"Skipped: {sentence}" for sentence in demo.skipped]
    lines.append("Every result was checked: " + ("all exact" if demo.ok else "SOME WERE WRONG"))
    return lines


def table(demo: Demo) -> Tuple[List[str], List[List[str]]]:
    """Headings and cells: per size, time and percent of limit on each lab, gain over the first."""
    names = list(demo.rows)
    base = names[0]
    headings = ["size"]
    for name in names:
        headings += [f"{name}\nus", "of limit\n%"] + (["gain\nx"] if name != base else [])
    if demo.gloo is not None:
        headings.append(f"{GLOO}\nus")
    factors = {name: gains(demo.rows[name], {base: demo.rows[base]}) for name in names}
    cells = []
    for index, first in enumerate(demo.rows[base]):
        line = [format_size(first["size"])]
        for name in names:
            row = demo.rows[name][index]
            of_limit = row["of_limit"]
            worth = of_limit is not None and of_limit_holds(row)
            line += [f"{row['time_us']:.1f}", f"{100 * of_limit:.1f}" if worth else "-"]
            if name != base:
                factor = factors[name][index]
                line.append("-" if factor is None else f"{factor:.2f}")
        if demo.gloo is not None:
            line.append(f"{demo.gloo[index]['time_us']:.1f}")
        cells.append(line)
    return headings, cells


def draw(demo: Demo, path: Path) -> None:
    """Writes the picture. Raises BenchError."""
    curves = {f"Nezha, {name}": rows for name, rows in demo.rows.items()}
    if demo.gloo is not None:
        curves[GLOO] = demo.gloo
    cores = len(allowed())
    shared = ", which share them" if cores < NODES else ""
    plot(curves, path, f"all_reduce of float32, {NODES} nodes on {cores} cores{shared}")
