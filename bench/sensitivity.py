#!/usr/bin/env python3
"""Which of the library's fitted constants matter: each is halved and doubled, and jobs on simulated
clusters run with it.

    .venv/bin/python bench/sensitivity.py [--only NAME ...] [--json FILE] [--work FOLDER]

A constant is a `constexpr` number of the folders below that is not a bound of memory, a count of places
or a number of a protocol (STRUCTURAL says which are). A copy of the sources reads its factor from the
environment, and bench/sensitivity/measures.cc is run with each. Simulated time is the same in every run
with the same seed, so any difference comes from the constant. A change in when frames are sent changes
the random delays of those after it, too: what other seeds change with the usual constants does not count.
A row is the constant's largest change of a figure: above 1, jobs take longer with it. Rows are ordered by
the change beside that of other seeds. A constant that changes nothing here may
matter to jobs that are not measured.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Dict, Iterator, Optional, Sequence, Tuple

from rich.console import Console
from rich.progress import track
from rich.table import Table

ROOT = Path(__file__).resolve().parent.parent
FOLDERS = ("src/rails", "src/engine/endpoint", "src/engine/flow", "src/engine/membership")
NOT_COPIED = ("build", "out", "dist", "__pycache__")
FACTORS = (0.5, 2.0)
SEEDS = (1, 2, 3)
OTHER_SEEDS = ((4, 5, 6), (7, 8, 9), (10, 11, 12), (13, 14, 15))
LONGEST_S = 300  # for one run of the measures, which takes 2 s of processor time
NOTICED = 0.01  # smaller changes are not shown: no figure of a lab is as exact
CONSTANT = re.compile(
    r"^(?P<indent> *)(?P<storage>static |inline |)constexpr "
    r"(?P<type>double|Nanoseconds|int|u?int(?:32|64)_t|size_t) (?P<name>k\w+) = (?P<value>[^;{]+);",
    re.MULTILINE)
# Constants that are no measure of anything, by file and name: sizes of arrays, bounds of memory, numbers
# of ways and stages, arithmetic.
STRUCTURAL = {
    "policy.h": {"kRailsMax"}, "tuner.h": {"kNone"},
    "share_tuner.h": {"kRailsTried", "kTogether", "kWays", "kSizes"},
    "share_tuner.cc": {"kBits"}, "aggregation_shares.h": {"kClasses"},
    "device_list.cc": {"kMaskWords", "kBytesMax"}, "binder.h": {"kWait"}, "rail_divider.h": {"kSlotMask"},
    "broken_pairs.h": {"kStepsMax", "kClassesMax"}, "agreement.h": {"kBehindMax"},
    "shrink.h": {"kEndedMax"}, "constants.h": {"kTellsPerCredit", "kTunedBytesMax", "kShortestTransfers",
                                                "kSamples", "kReportedMax"},
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


def make_scalable(text: str, file: str, names: "set[str]") -> str:
    """The text of a source whose constants of these names are multiplied by their factors."""

    def scale(found: "re.Match[str]") -> str:
        follows = any(re.search(rf"\b{name}\b", found["value"]) for name in names)
        if found["name"] not in names and not follows:
            return found[0]
        local = found["indent"] and not found["storage"]
        storage = "static " if local else "inline " if found["storage"] == "inline " else \
            "static inline " if found["storage"] else ""
        value = found["value"]
        if found["name"] in names:
            key = f"{Path(file).name}:{found['name']}"
            value = f"::sensitivity::scaled<{found['type']}>(\"{key}\", {value})"
        return f"{found['indent']}{storage}const {found['type']} {found['name']} = {value};"

    # What follows from a scaled number is no constant to the compiler, either.
    text = CONSTANT.sub(scale, text).replace("constexpr auto k", "const auto k")
    text = re.sub(r"^static_assert\([^;]*;\n", "", text, flags=re.MULTILINE)
    at = text.index("#include") if "#pragma once" not in text else text.index("#pragma once") + 13
    return text[:at] + '#include "base/scaled.h"\n' + text[at:]


def copy_sources(copy: Path) -> None:
    """Brings the copy up to date, with scaled constants; files that stay the same are not touched."""
    names: Dict[str, "set[str]"] = {}
    for constant in constants(ROOT):
        names.setdefault(constant.file, set()).add(constant.name)
    wanted = {"src/base/scaled.h": SCALED.encode()}
    for folder, folders, files in os.walk(ROOT):
        folders[:] = [name for name in folders if name not in NOT_COPIED and not name.startswith(".")]
        for path in (Path(folder) / name for name in files):
            file = str(path.relative_to(ROOT))
            wanted[file] = path.read_bytes()
            if file in names:
                wanted[file] = make_scalable(wanted[file].decode(), file, names[file]).encode()
    for old in [path for path in copy.rglob("*") if path.is_file()]:
        if str(old.relative_to(copy)) not in wanted:
            old.unlink()
    for file, content in wanted.items():
        path = copy / file
        if not path.exists() or path.read_bytes() != content:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)


def build(work: Path) -> Path:
    """Builds the measures on a copy of the sources; their program."""
    copy, out = work / "source", work / "build"
    copy_sources(copy)
    commands = (["cmake", "--preset", "release", "-B", out, "-DNEZHA_PLANTED_BUGS=OFF"],
                ["cmake", "--build", out, "--target", "simulation_measures"])
    for command in commands:
        done = subprocess.run([str(word) for word in command], cwd=copy, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, check=False)
        if done.returncode != 0:
            sys.exit(f"{' '.join(map(str, command))} failed:\n{done.stdout[-8000:]}")
    return out / "tests/simulation/simulation_measures"


def run(program: Path, setting: str, seed: int) -> Dict[str, float]:
    """What jobs take, in seconds, with one seed and NAME=FACTOR; -1 for a job that failed."""
    try:
        done = subprocess.run([program, str(seed)], stdout=subprocess.PIPE, text=True, check=True,
                              stderr=subprocess.DEVNULL, timeout=LONGEST_S,
                              env={**os.environ, "NEZHA_SENSITIVITY": setting})
    except subprocess.SubprocessError:
        return {"the program did not end well": -1}
    taken: Dict[str, float] = json.loads(done.stdout)
    return taken


def medians(runs: Sequence[Dict[str, float]]) -> Dict[str, float]:
    """The medians of some seeds, in seconds; -1 for a job that failed with one of them."""
    if any(set(each) != set(runs[0]) for each in runs):
        return {"the program did not end well": -1}
    return {name: -1 if min(each[name] for each in runs) < 0 else median(each[name] for each in runs)
            for name in runs[0]}


@dataclass
class Measures:
    """The program, and what it gives with the usual constants, in seconds."""

    program: Path
    first: Dict[str, float]        # of the first seed
    usual: Dict[str, float]        # medians of SEEDS
    other_seeds: Dict[str, float]  # by which factor they change with OTHER_SEEDS

    @classmethod
    def of(cls, program: Path, pool: ThreadPoolExecutor) -> "Measures":
        """Runs it with the usual constants."""
        seeds = [*SEEDS, *(seed for group in OTHER_SEEDS for seed in group)]
        runs = dict(zip(seeds, pool.map(lambda seed: run(program, "", seed), seeds)))
        usual, *others = [medians([runs[seed] for seed in group]) for group in (SEEDS, *OTHER_SEEDS)]
        if min(usual.values()) < 0:
            sys.exit(f"a job fails with the usual constants: {usual}")
        return cls(program, runs[SEEDS[0]], usual, spread(usual, others))

    def figures(self, setting: str) -> Dict[str, float]:
        """What jobs take with a setting: one seed decides whether others are worth their time."""
        first = run(self.program, setting, SEEDS[0])
        if first == self.first:
            return self.usual
        return medians([first, *(run(self.program, setting, seed) for seed in SEEDS[1:])])


def change(ratio: float) -> float:
    """How far a ratio is from 1, in either direction."""
    return max(ratio, 1 / max(ratio, 1e-9))


def spread(usual: Dict[str, float], others: Sequence[Dict[str, float]]) -> Dict[str, float]:
    """By which factor each figure changes with other seeds, at most; never less than NOTICED."""
    return {name: max(1 + NOTICED, *(change(other[name] / value) for other in others))
            for name, value in usual.items()}


def worst(usual: Dict[str, float], changed: Dict[str, float],
          other_seeds: Dict[str, float]) -> Tuple[float, str]:
    """The change of the figure that changed most beside what other seeds change, and its name."""
    failed = [name for name, value in changed.items() if value < 0]
    if failed:
        return float("inf"), failed[0]
    ratios = {name: changed[name] / value for name, value in usual.items()}
    name = max(ratios, key=lambda each: change(ratios[each]) / other_seeds[each])
    return ratios[name], name


def largest(usual: Dict[str, float], changed: Dict[str, float]) -> float:
    """The largest change of any figure, whatever other seeds change."""
    return max(change(changed.get(name, -1) / value) for name, value in usual.items())


@dataclass(frozen=True)
class Row:
    """What one constant changes."""

    constant: Constant
    changes: Tuple[Tuple[float, str], ...]  # by factor
    beside: float   # the largest change beside what other seeds change: above 1, it matters
    largest: float  # the largest change of any figure

    @property
    def figure(self) -> str:
        """The figure that changes most."""
        return max(self.changes, key=lambda each: change(each[0]))[1]


def compare(constant: Constant, usual: Dict[str, float], other_seeds: Dict[str, float],
            runs: Sequence[Dict[str, float]]) -> Row:
    """The row of a constant, from its runs, one a factor."""
    changes = tuple(worst(usual, run, other_seeds) for run in runs)
    beside = max(change(ratio) / other_seeds.get(name, 1) for ratio, name in changes)
    return Row(constant, changes, beside, max(largest(usual, run) for run in runs))


def show(rows: Sequence[Row]) -> None:
    """The constants, those that matter first."""
    table = Table("constant", "value", "x 0.5", "x 2", "figure", title="Constants that matter")
    for row in sorted(rows, key=lambda each: each.beside, reverse=True):
        if row.beside > 1:
            table.add_row(row.constant.key, row.constant.value,
                          *(f"{ratio:.3f}" for ratio, _ in row.changes), row.figure)
    Console(width=None if sys.stdout.isatty() else 140).print(table)
    quiet = [row for row in rows if row.beside <= 1]
    nothing = [row.constant.key for row in quiet if row.largest <= 1 + NOTICED]
    little = [row.constant.key for row in quiet if row.largest > 1 + NOTICED]
    print(f"{len(nothing)} of {len(rows)} constants change no figure by more than {NOTICED:.0%}:",
          ", ".join(nothing))
    print(f"{len(little)} change figures by no more than other seeds do:", ", ".join(little))


def known(file: Optional[Path], usual: Dict[str, float]) -> Dict[str, Dict[str, float]]:
    """The runs that an earlier call wrote, if its usual figures were the same ones."""
    if file is None or not file.exists():
        return {}
    earlier = json.loads(file.read_text())
    return dict(earlier["runs"]) if earlier["usual"] == usual else {}


def main() -> int:
    """Entry point."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--only", nargs="*", metavar="NAME", help="constants, as file:name or name")
    parser.add_argument("--json", type=Path,
                        help="where all figures go; a call goes on where the one before it ended")
    parser.add_argument("--work", type=Path, default=ROOT / "build/sensitivity", help="for the copy")
    given = parser.parse_args()
    asked = [each for each in constants(ROOT)
             if not given.only or each.key in given.only or each.name in given.only]
    program = build(given.work.resolve())
    settings = [f"{constant.key}={by}" for constant in asked for by in FACTORS]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        measures = Measures.of(program, pool)
        runs = known(given.json, measures.usual)
        left = [setting for setting in settings if setting not in runs]
        for setting, taken in track(zip(left, pool.map(measures.figures, left)), total=len(left),
                                    description="constants"):
            runs[setting] = taken
            if given.json:
                given.json.write_text(json.dumps({"usual": measures.usual, "runs": runs,
                                                  "other seeds": measures.other_seeds}, indent=1) + "\n")
    show([compare(constant, measures.usual, measures.other_seeds,
                  [runs[f"{constant.key}={by}"] for by in FACTORS]) for constant in asked])
    return 0


if __name__ == "__main__":
    sys.exit(main())
