#!/usr/bin/env python3
"""Which of the library's fitted constants matter: each is halved and doubled, and jobs on three
simulated clusters run with it.

    .venv/bin/python bench/sensitivity.py [--only NAME ...] [--json FILE] [--work FOLDER]

A constant is a `constexpr` number of the folders below that is not a bound of memory, a count of places
or a number of a protocol (STRUCTURAL says which are). A copy of the sources reads its factor from the
environment, and bench/sensitivity/measures.cc is run with each. Simulated time is the same in every run,
so any difference comes from the constant. A row is the constant's largest change of a figure: above 1,
the figure takes longer with it. The library would do without a constant that changes nothing.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Dict, Iterator, List, Tuple

from rich.console import Console
from rich.progress import track
from rich.table import Table

ROOT = Path(__file__).resolve().parent.parent
FOLDERS = ("src/control", "src/engine/endpoint", "src/engine/flow", "src/engine/membership")
FACTORS = (0.5, 2.0)
NOTICED = 0.01  # smaller changes are not shown: no figure of a lab is as exact
CONSTANT = re.compile(
    r"^(?P<indent> *)(?P<storage>static |inline |)constexpr "
    r"(?P<type>double|Nanoseconds|int|u?int(?:32|64)_t|size_t) (?P<name>k\w+) = (?P<value>[^;{]+);",
    re.MULTILINE)
# Constants that are no measure of anything, by file and name: sizes of arrays, bounds of memory, numbers
# of ways and stages, arithmetic.
STRUCTURAL = {
    "policy.h": {"kRailsMax"}, "transfer_times.h": {"kBytesMax", "kShortest", "kClasses", "kSamples"},
    "share_tuner.h": {"kBytesMax", "kRailsTried", "kTogether", "kWithout", "kNone", "kSizes", "kAgain",
                      "kSamples"},
    "share_tuner.cc": {"kBits"}, "aggregation_shares.h": {"kClasses", "kSamplesMax"},
    "device_list.cc": {"kMaskWords", "kBytesMax"}, "binder.h": {"kWait"}, "rail_divider.h": {"kSlotMask"},
    "broken_pairs.h": {"kStepsMax", "kClassesMax"}, "agreement.h": {"kGenerationMax", "kBehindMax"},
    "shrink.h": {"kEndedMax"},
}
SCALED = """// The factor of a constant, from the environment.
#pragma once
#include <cstdlib>
#include <cstring>

namespace sensitivity {

inline double factor(const char* name) {
  const char* const given = std::getenv("NEZHA_SENSITIVITY");  // NAME=FACTOR
  const size_t length = std::strlen(name);
  if (given == nullptr || std::strncmp(given, name, length) != 0 || given[length] != '=') return 1;
  return std::atof(given + length + 1);
}
template <class T>
T scaled(const char* name, T value) {
  const double by = factor(name);
  return by == 1 ? value : static_cast<T>(static_cast<double>(value) * by);
}

}  // namespace sensitivity
"""


@dataclass(frozen=True)
class Constant:
    """One number of the library."""

    file: str
    name: str
    value: str

    @property
    def key(self) -> str:
        """Its name among all: files have constants of the same name."""
        return f"{Path(self.file).name}:{self.name}"


def constants(root: Path) -> Iterator[Constant]:
    """The constants in question."""
    for folder in FOLDERS:
        for path in sorted((root / folder).rglob("*.[ch]*")):
            for found in CONSTANT.finditer(path.read_text()):
                # A number that follows from another constant follows it here, too.
                if found["name"] not in STRUCTURAL.get(path.name, ()) and not depends(found["value"]):
                    yield Constant(str(path.relative_to(root)), found["name"], found["value"])


def depends(value: str) -> bool:
    """Whether the value names another constant, units aside."""
    return bool(set(re.findall(r"\bk[A-Z]\w+", value)) - {"kSecond", "kMillisecond", "kMicrosecond"})


def make_scalable(root: Path) -> None:
    """Lets the copy in `root` read the factors of its constants."""
    (root / "src/base/scaled.h").write_text(SCALED)
    known = {(constant.file, constant.name) for constant in constants(root)}
    for file in {file for file, _ in known}:
        path = root / file

        def scale(found: "re.Match[str]", file: str = file) -> str:
            if (file, found["name"]) not in known:
                return found[0]
            local = found["indent"] and not found["storage"]
            storage = "static " if local else "inline " if found["storage"] == "inline " else \
                "static inline " if found["storage"] else ""
            key = f"{Path(file).name}:{found['name']}"
            return (f"{found['indent']}{storage}const {found['type']} {found['name']} = "
                    f"::sensitivity::scaled<{found['type']}>(\"{key}\", {found['value']});")

        # A number that is computed from others is no constant to the compiler, either.
        text = CONSTANT.sub(scale, path.read_text()).replace("constexpr auto k", "const auto k")
        at = text.index("#include") if "#pragma once" not in text else text.index("#pragma once") + 13
        path.write_text(text[:at] + '#include "base/scaled.h"\n' + text[at:])


def build(work: Path) -> Path:
    """Builds the measures on a copy of the sources; their program."""
    copy = work / "source"
    shutil.rmtree(copy, ignore_errors=True)
    ignored = shutil.ignore_patterns("build", ".venv", ".git", "__pycache__")
    shutil.copytree(ROOT, copy, ignore=ignored, symlinks=True)
    make_scalable(copy)
    out = work / "build"
    commands = (["cmake", "--preset", "release", "-B", out],
                ["cmake", "--build", out, "--target", "simulation_measures"])
    for command in commands:
        done = subprocess.run([str(word) for word in command], cwd=copy, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, check=False)
        if done.returncode != 0:
            sys.exit(f"{' '.join(map(str, command))} failed:\n{done.stdout[-4000:]}")
    return out / "tests/simulation/simulation_measures"


def figures(program: Path, setting: str = "") -> Dict[str, float]:
    """What the jobs take; -1 for one that failed."""
    done = subprocess.run([program], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
                          env={**os.environ, "NEZHA_SENSITIVITY": setting}, check=False)
    if done.returncode != 0:
        return {"the program ended": -1}
    taken: Dict[str, float] = json.loads(done.stdout)
    return taken


def change(ratio: float) -> float:
    """How far a ratio is from 1, in either direction."""
    return max(ratio, 1 / max(ratio, 1e-9))


def worst(usual: Dict[str, float], changed: Dict[str, float]) -> Tuple[float, str]:
    """The figure that changed most, and by which factor."""
    failed = [name for name, value in changed.items() if value < 0]
    if failed:
        return float("inf"), failed[0]
    ratios = {name: changed[name] / value for name, value in usual.items()}
    name = max(ratios, key=lambda each: change(ratios[each]))
    return ratios[name], name


def show(rows: List[Dict[str, object]]) -> None:
    """The constants, those that matter first."""
    table = Table("constant", "value", "x 0.5", "x 2", "figure", title="Constants that matter")

    def size(row: Dict[str, object]) -> float:
        return max(change(float(str(row[str(by)]))) for by in FACTORS)

    for row in sorted(rows, key=size, reverse=True):
        if size(row) > 1 + NOTICED:
            table.add_row(str(row["constant"]), str(row["value"]),
                          *(f"{row[str(by)]:.3f}" for by in FACTORS), str(row["figure"]))
    Console().print(table)
    quiet = [str(row["constant"]) for row in rows if size(row) <= 1 + NOTICED]
    print(f"{len(quiet)} of {len(rows)} constants change no figure by more than {NOTICED:.0%}:",
          ", ".join(quiet))


def main() -> int:
    """Entry point."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--only", nargs="*", metavar="NAME", help="constants, as file:name or name")
    parser.add_argument("--json", type=Path, help="where all figures go")
    parser.add_argument("--work", type=Path, default=ROOT / "build/sensitivity", help="for the copy")
    given = parser.parse_args()
    asked = [each for each in constants(ROOT)
             if not given.only or each.key in given.only or each.name in given.only]
    program = build(given.work.resolve())
    usual = figures(program)
    runs = [(constant, by) for constant in asked for by in FACTORS]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        results = list(track(pool.map(lambda run: figures(program, f"{run[0].key}={run[1]}"), runs),
                             total=len(runs), description="constants"))
    rows: List[Dict[str, object]] = []
    for index, constant in enumerate(asked):
        row: Dict[str, object] = {"constant": constant.key, "value": constant.value}
        changes = [worst(usual, results[2 * index + which]) for which in range(len(FACTORS))]
        row.update({str(by): each[0] for by, each in zip(FACTORS, changes)})
        row["figure"] = max(changes, key=lambda each: change(each[0]))[1]
        rows.append(row)
    show(rows)
    if given.json:
        given.json.write_text(json.dumps({"usual": usual, "constants": rows}, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
