#!/usr/bin/env python3
"""Prints the slowest cases of the last run of the tests, from the logs that tools/run_tests.sh keeps.

    tools/slowest.py [COUNT]        default: 10
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import List, Tuple

_CTEST = re.compile(r"Test +#\d+: (\S+) \.+.*? +([\d.]+) sec")
_PYTEST = re.compile(r"^([\d.]+)s (?:call|setup|teardown) +(\S+)", re.MULTILINE)


def cases(folder: Path) -> List[Tuple[float, str]]:
    """(seconds, name) of every case that the logs in `folder` mention."""
    found = []
    for log in sorted(folder.glob("ctest-*.log")):
        kind = log.stem.partition("-")[2]
        found += [(float(seconds), f"{kind}: {name}")
                  for name, seconds in _CTEST.findall(log.read_text(errors="replace"))]
    for log in sorted(folder.glob("pytest-*.log")):
        found += [(float(seconds), name)
                  for seconds, name in _PYTEST.findall(log.read_text(errors="replace"))]
    return sorted(found, reverse=True)


def main() -> None:
    """Prints the table."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 10
    for seconds, name in cases(Path("build"))[:count]:
        print(f"    {seconds:6.1f} s  {name}")


if __name__ == "__main__":
    main()
