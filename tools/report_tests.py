#!/usr/bin/env python3
"""What the last run of the tests left in its logs (tools/run_tests.sh keeps them in build/).

    tools/report_tests.py slowest       the ten slowest cases
    tools/report_tests.py skipped       what was skipped, how often and why
"""

from __future__ import annotations

import argparse
import re
from collections import Counter
from pathlib import Path
from typing import List

_BUILD = Path("build")
_SLOWEST = 10
_CTEST = re.compile(r"Test +#\d+: (\S+) \.+.*? +([\d.]+) sec")
_PYTEST = re.compile(r"^([\d.]+)s (?:call|setup|teardown) +(\S+)", re.MULTILINE)
# GoogleTest's place and reason, pytest's count, place and reason, and the sentence of the guest's runner.
_GOOGLETEST_SKIP = re.compile(r"([^\s/]+\.cc):\d+: Skipped\n(.*)\n")
_PYTEST_SKIP = re.compile(r"^SKIPPED \[(\d+)\] (\S+?)(?::\d+)?: (.*)", re.MULTILINE)
_GUEST_SKIP = re.compile(r"^skipped: (.*)", re.MULTILINE)


def slowest(build: Path) -> List[str]:
    """A line a case, for the slowest of all C++ and Python cases."""
    found = []
    for log in sorted(build.glob("ctest-*.log")):
        kind = log.stem.partition("-")[2]
        found += [(float(seconds), f"{kind}: {name}")
                  for name, seconds in _CTEST.findall(log.read_text(errors="replace"))]
    for log in sorted(build.glob("pytest-*.log")):
        found += [(float(seconds), name)
                  for seconds, name in _PYTEST.findall(log.read_text(errors="replace"))]
    return [f"{seconds:6.1f} s  {name}" for seconds, name in sorted(found, reverse=True)[:_SLOWEST]]


def skipped(build: Path) -> List[str]:
    """A line for every place and reason."""
    found: Counter[str] = Counter()
    for log in sorted(build.glob("ctest-*.log")):
        kind = log.stem.partition("-")[2]
        cases = build / kind / "Testing" / "Temporary" / "LastTest.log"
        for place, why in _GOOGLETEST_SKIP.findall(cases.read_text(errors="replace")):
            found[f"{kind}: {place}: {why}"] += 1
    for log in sorted(build.glob("pytest-*.log")):
        for count, place, why in _PYTEST_SKIP.findall(log.read_text(errors="replace")):
            found[f"{place}: {why}"] += int(count)
    for log in sorted(build.glob("rdma.log")):
        for why in _GUEST_SKIP.findall(log.read_text(errors="replace")):
            found[f"RDMA in a guest: {why}"] += 1
    return [f"{count:3} x  {what}" for what, count in sorted(found.items())]


def main() -> None:
    """Prints the lines asked for."""
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["slowest", "skipped"])
    for line in {"slowest": slowest, "skipped": skipped}[parser.parse_args().what](_BUILD):
        print(f"    {line}")


if __name__ == "__main__":
    main()
