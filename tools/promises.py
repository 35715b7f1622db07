#!/usr/bin/env python3
"""Every promise of docs/security.md and docs/threat_model.md names what shows it, and that exists; every
table of measured figures has its command.

    tools/promises.py [ROOT]

A promise is a row of a table whose last column is "tested by" or "shown by". There, in `...`: a file or
folder of tests, from the root or by its name alone; a test of gtest as Suite.Name; a planted bug. Prints
one line for each row that names none, and each name that nothing has; exits with 1 when there is any.

A table of figures has times, rates or shares in its cells. On the pages that have measured ones it stands
between the marks of bench/figures.py, or its section has a command.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Iterator, List, Set, Tuple

from features import gtests

PAGES = ("docs/security.md", "docs/threat_model.md")
SHOWS = ("tested by", "shown by")
BUGS = "tests/planted/bugs.py"
MEASURED = tuple(f"docs/{name}.md" for name in (
    "aggregation", "balancing", "hierarchy", "performance", "rdma", "shared_memory", "torch", "training"))

_CODE = re.compile(r"`([^`]+)`")
_GTEST = re.compile(r"^[A-Z]\w*\.[A-Z]\w*$")
_FIGURE = re.compile(r"^[`~]?[\d.,]+(?:(?: to |-| \.\. )[\d.,]+)? ?"
                     r"(?:ns|us|ms|s|%|Gbit/s|GB/s|MB/s)(?!\w)")
_COMMAND = re.compile(r"nezha (?:bench|calibrate|chaos|lab|plan|run|sim)\b|(?:bench|tests)/\w|\bmake \w")
_BUG = re.compile(r"\bBug\(\s*\"(\w+)\"")


def promises(page: str) -> Iterator[Tuple[int, str]]:
    """(line, last cell) of every row of a table that shows promises."""
    shows = False
    for number, line in enumerate(page.split("\n"), 1):
        if not line.startswith("|"):
            shows = False
            continue
        last = line.rstrip().rstrip("|").rpartition("|")[2].strip()
        if last in SHOWS:
            shows = True
        elif shows and set(line) - set("|- "):
            yield number, last


def names_of(root: Path) -> Set[str]:
    """All that a promise may name."""
    known = set(gtests(root)) | set(_BUG.findall((root / BUGS).read_text()))
    for path in (root / "tests").rglob("*"):
        if path.suffix in (".cc", ".py") or path.is_dir():
            known |= {path.relative_to(root).as_posix(), path.name, path.stem}
    return known


def without_command(page: str) -> Iterator[int]:
    """The first line of figures of every section that has some and says nothing of how to get them."""
    for section in re.finditer(r"(?:\A|^#)(?:(?!^#).*\n?)+", page, re.MULTILINE):
        rest = re.sub(r"<!-- figures: .*?<!-- end of figures -->",
                      lambda found: "\n" * found[0].count("\n"), section[0], flags=re.DOTALL)
        if _COMMAND.search(rest):
            continue
        first = page.count("\n", 0, section.start()) + 1
        yield from [number for number, line in enumerate(rest.split("\n"), first) if line.startswith("|")
                    and any(_FIGURE.match(cell.strip()) for cell in line.strip("|").split("|"))][:1]


def check_figures(root: Path) -> List[str]:
    """Tables of figures without a command, one line each."""
    return [f"{name}:{number}: figures without the command that measures them"
            for name in MEASURED for number in without_command((root / name).read_text())]


def check(root: Path) -> List[str]:
    """All offences of promises, one line each."""
    known, problems = names_of(root), []
    for name in PAGES:
        for number, cell in promises((root / name).read_text()):
            shown = _CODE.findall(cell)
            problems += [f"{name}:{number}: there is no test, file of tests or planted bug {each}"
                         for each in shown if each not in known and is_claim(each)]
            if not any(each in known for each in shown):
                problems.append(f"{name}:{number}: nothing is named that shows this promise")
    return problems


def is_claim(word: str) -> bool:
    """Whether it can be meant as a test, and not as an option or a word of the wire."""
    return bool(_GTEST.match(word)) or bool(re.fullmatch(r"\w+", word)) or word.endswith((".cc", ".py")) \
        or word.startswith("tests/")


def main() -> int:
    """Entry point."""
    root = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).resolve().parent.parent
    problems = check(root) + check_figures(root)
    print("\n".join(problems) or "promises: ok")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
