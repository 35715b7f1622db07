"""Acceptance by other people's tests: torch's suite of a backend, and torchft's.

    run.py [--worlds 3 8] [--out build/upstream]

torch's suite runs on gloo, then what passed there on nezha, then what it gives only to a backend that is
called gloo on nezha under that name. All of it has to pass, except what exceptions.ini names. torchft's
tests have to pass. Prints a table; the logs are in the folder. Exit status 0: accepted.
"""

from __future__ import annotations

import argparse
import configparser
import importlib.metadata
import json
import os
import subprocess
import sys
import time
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import Dict, List, Set, Tuple

HERE = Path(__file__).resolve().parent
MOST_EXCEPTIONS = 5
_HANGS_S = 1800.0
_ROW = "{:34} {:>7} {:>7} {:>10} {:>7} {:>7}"
Results = Dict[str, str]


def torch_results(name: str, world: int, out: Path, *arguments: str, **environment: str) -> Results:
    """The outcomes of one run of torch_suite.py."""
    results = out / f"torch-{world}-{name}.json"
    results.unlink(missing_ok=True)
    print(f"torch's suite, {world} ranks, {name}", flush=True)
    with open(out / f"torch-{world}-{name}.log", "w") as log:
        subprocess.run([sys.executable, str(HERE / "torch_suite.py"), "--results", str(results),
                        *arguments], stdout=log, stderr=subprocess.STDOUT, check=True,
                       env={**os.environ, **environment, "WORLD_SIZE": str(world)})
    outcomes: Results = json.loads(results.read_text())
    return outcomes


def torch_suite(world: int, out: Path) -> Tuple[Set[str], Set[str], Set[str]]:
    """(passed on gloo, of these passed on nezha, of these passed on nezha under gloo's name)."""
    gloo = torch_results("gloo", world, out, BACKEND="gloo")
    reference = ["--names", str(out / f"torch-{world}-gloo.json")]
    own = torch_results("nezha", world, out, *reference, BACKEND="nezha")
    # The tests that only a backend called gloo gets.
    left = [name for name, outcome in own.items() if outcome == "skipped"]
    alias: Results = {}
    if left:
        alias = torch_results("alias", world, out, *left, BACKEND="gloo", NEZHA_TORCH_ALIAS="gloo")
    return passed(gloo), passed(own), passed(alias)


def passed(outcomes: Results) -> Set[str]:
    """The names of what passed."""
    return {name for name, outcome in outcomes.items() if outcome == "passed"}


def torchft_tests(name: str, out: Path, *arguments: str) -> Tuple[int, List[str]]:
    """(how many passed, what failed) of one run of pytest."""
    report = out / f"torchft-{name}.xml"
    report.unlink(missing_ok=True)
    print(f"torchft's {name}", flush=True)
    path = os.pathsep.join(filter(None, [str(HERE), os.environ.get("PYTHONPATH", "")]))
    with open(out / f"torchft-{name}.log", "w") as log:
        try:
            status = subprocess.run(
                [sys.executable, "-m", "pytest", "-v", "-c", os.devnull, "-p", "no:cacheprovider",
                 f"--junitxml={report}", f"--rootdir={out}", *arguments], timeout=_HANGS_S,
                stdout=log, stderr=subprocess.STDOUT,
                env={**os.environ, "PYTHONPATH": path}).returncode
        except subprocess.TimeoutExpired:
            return 0, [f"still running after {_HANGS_S:.0f} s, see {log.name}"]
    failed: List[str] = []
    count = 0
    for case in ElementTree.parse(report).iter("testcase") if report.exists() else ():
        if case.find("failure") is not None or case.find("error") is not None:
            failed.append(str(case.get("name")))
        elif case.find("skipped") is None:
            count += 1
    if status and not failed:
        failed.append(f"pytest ended with {status}, see {log.name}")
    return count, failed


def exceptions(path: Path) -> Set[str]:
    """The tests that need not pass. Raises SystemExit when there are too many."""
    parser = configparser.ConfigParser()
    parser.optionxform = str  # type: ignore[assignment,method-assign]  # names keep their case
    parser.read_string(path.read_text())
    names = set(parser["distributed_test"])
    if len(names) > MOST_EXCEPTIONS:
        raise SystemExit(f"{path}: {len(names)} exceptions, at most {MOST_EXCEPTIONS} are allowed")
    return names


def compiled_part() -> None:
    """Builds what torch's own trampoline lacks; the suite asks works whether they are over."""
    found = importlib.metadata.entry_points(group="torch.distributed.backends")
    if "nezha" not in {entry.name for entry in found}:
        raise SystemExit("nezha is not installed beside torch: pip install . first")
    from nezha.torch import build_native

    print(f"compiled part: {build_native()}", flush=True)


def run(worlds: List[int], out: Path) -> int:
    """Everything; returns how many tests failed that had to pass."""
    known = exceptions(HERE / "exceptions.ini")
    compiled_part()
    lines: List[str] = []
    wrong: List[str] = []
    for world in worlds:
        gloo, own, alias = torch_suite(world, out)
        missing = gloo - own - alias
        wrong += [f"distributed_test, {world} ranks: {name}" for name in sorted(missing - known)]
        lines.append(_ROW.format(f"torch distributed_test, {world} ranks", len(gloo), len(own),
                                 len(alias), len(missing & known), len(missing - known)))
    for name, arguments in (
            ("process-groups", [str(HERE / "torchft_suite.py")]),
            ("integration", ["-p", "patch_gloo", "--pyargs", "torchft.ddp_test",
                             "torchft.manager_integ_test", "torchft.local_sgd_integ_test"])):
        count, failed = torchft_tests(name, out, *arguments)
        if failed and count:  # its quorums depend on the clock: on gloo, too, one fails now and then
            again, failed = torchft_tests(f"{name}-again", out, *arguments, "-k", " or ".join(failed))
            count += again
        wrong += [f"torchft, {name}: {test}" for test in failed]
        lines.append(_ROW.format(f"torchft {name}", "", count, "", 0, len(failed)))
    print("\n" + _ROW.format("", "gloo", "nezha", "as \"gloo\"", "known", "failed"))
    print("\n".join(lines))
    for text in wrong:
        print(f"FAILED {text}")
    return len(wrong)


def main() -> int:
    """Entry of the command."""
    parser = argparse.ArgumentParser(description="the upstream suites on gloo and on nezha")
    parser.add_argument("--worlds", type=int, nargs="+", default=[3, 8], help="numbers of ranks")
    parser.add_argument("--out", type=Path, default=Path("build/upstream"), help="for the logs")
    options = parser.parse_args()
    out = options.out.resolve()
    out.mkdir(parents=True, exist_ok=True)
    begin = time.monotonic()
    failed = run(options.worlds, out)
    print(f"{'FAILED' if failed else 'accepted'} after {(time.monotonic() - begin) / 60:.0f} minutes; "
          f"logs: {out}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
