"""RDMA tests in a throw-away guest: `python -m rdma test`, `python -m rdma guest -- COMMAND`.

Exit status of `test`: 0 all passed, 1 something failed, 77 skipped: this machine cannot run the guest.
docs/rdma.md explains.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Dict, List

from . import requirements
from .guest import NO_STATUS, TIMED_OUT, Guest

ROOT = Path(__file__).resolve().parents[2]
TESTS = ROOT / "tests"
SKIPPED = 77
# Targets of CMake: where they lie in its folder, and the variable that tells the guest.
PROGRAMS = {"raw_fabric": ("bench/fabric/raw_fabric", "RAW_FABRIC"),
            "rdma_job": ("tests/rdma/rdma_job", "RDMA_JOB"),
            "rdma_suite": ("tests/rdma/rdma_suite", "RDMA_SUITE")}
SECONDS = 1200  # a guard against hanging: all cases take some 130 s of processor time


def build() -> Path:
    """Folder of the build with the programs, made anew where out of date.

    Raises:
        SystemExit: it does not compile; with the compiler's words.
    """
    folder, log = ROOT / "build" / "release", ROOT / "build" / "rdma.log"
    for words in (["cmake", "--preset", "release"],
                  ["cmake", "--build", str(folder), "--target", *PROGRAMS]):
        with log.open("w") as output:
            done = subprocess.run(words, cwd=ROOT, stdout=output, stderr=subprocess.STDOUT)
        if done.returncode != 0:
            raise SystemExit(f"`{' '.join(words)}` failed:\n{log.read_text()[-3000:]}")
    return folder


def test(arguments: argparse.Namespace) -> int:
    """Runs the cases in one guest and prints their table."""
    from . import inside

    cases = list(inside.SHORT) if arguments.short else arguments.case
    unknown = [name for name in cases if name not in inside.CASES]
    if unknown or arguments.list:
        print("\n".join(inside.CASES) if arguments.list else
              f"no case {', '.join(unknown)}; --list shows them")
        return 0 if arguments.list else 2
    folder = Path(arguments.build).resolve() if arguments.build else build()
    programs = {variable: str(folder / path) for path, variable in PROGRAMS.values()}
    absent = [path for path in programs.values() if not os.access(path, os.X_OK)]
    if absent:
        print(f"not there: {', '.join(absent)}; cmake --build {folder} --target {' '.join(PROGRAMS)}")
        return 1
    directory = Path(arguments.out)
    directory.mkdir(parents=True, exist_ok=True)
    results = directory / inside.RESULTS
    results.unlink(missing_ok=True)
    start = time.monotonic()
    guest = Guest(directory)
    status = guest.run(
        [sys.executable, "-S", "-m", "rdma.inside", *cases], SECONDS,
        {"PYTHONPATH": str(TESTS), "PYTHONDONTWRITEBYTECODE": "1", **programs})
    lines = results.read_text().splitlines() if results.exists() else []
    told = {entry["case"]: entry for entry in map(json.loads, lines)}
    wanted = ["rails", *(cases or inside.CASES)]
    passed = report(wanted, told, status)
    boot = "never" if guest.boot_seconds is None else f"{guest.boot_seconds:.1f} s"
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    print(f"guest up after {boot}, {time.monotonic() - start:.0f} s in all, "
          f"{used.ru_utime + used.ru_stime:.0f} s of processor time with building")
    return 0 if passed and status == 0 else 1


def report(wanted: List[str], told: Dict[str, Dict[str, Any]], status: int) -> bool:
    """Prints a line a case; whether all passed. A case without a result has failed."""
    why = {TIMED_OUT: f"the guest was ended after {SECONDS} s", NO_STATUS: "the guest ended early"}
    none = {"passed": False, "seconds": 0.0, "note": why.get(status, "not reached")}
    width = max(map(len, wanted))
    print()
    for name in wanted:
        entry = told.get(name, none)
        print(f"{name:{width}}  {'passed' if entry['passed'] else 'FAILED'}  {entry['seconds']:5.1f} s  "
              f"{entry['note']}")
    failed = sum(not told.get(name, none)["passed"] for name in wanted)
    print(f"{len(wanted) - failed} passed, {failed} failed")
    return failed == 0


def guest_command(arguments: argparse.Namespace) -> int:
    """Runs one command in a guest."""
    words = arguments.command[1:] if arguments.command[:1] == ["--"] else arguments.command
    return Guest(Path(arguments.directory)).run(words or ["bash", "-c", "ibv_devices"],
                                                arguments.seconds)


def parse() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m rdma", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True)
    one = commands.add_parser("test", help="run the cases")
    one.add_argument("case", nargs="*", help="names; none: all")
    one.add_argument("--short", action="store_true", help="the cases of `make test`")
    one.add_argument("--list", action="store_true", help="print the names")
    one.add_argument("--build", metavar="FOLDER", help="where the programs were built already")
    one.add_argument("--out", default="out/rdma", metavar="FOLDER", help="where results go")
    one.set_defaults(body=test)
    two = commands.add_parser("guest", help="run a command in a guest")
    two.add_argument("--directory", default=".", help="writable inside, and its working directory")
    two.add_argument("--seconds", type=float, default=300)
    two.add_argument("command", nargs=argparse.REMAINDER)
    two.set_defaults(body=guest_command)
    return parser.parse_args()


def main() -> int:
    """Entry point."""
    arguments = parse()
    try:
        requirements.provide(ROOT / "build" / "rdma" / "apt.log")
        return arguments.body(arguments)
    except requirements.Missing as missing:
        print(f"skipped: missing {missing}")
        return SKIPPED


if __name__ == "__main__":
    sys.exit(main())
