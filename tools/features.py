#!/usr/bin/env python3
"""The table of docs/features.md is made from docs/features.toml, and every feature names its tests.

    tools/features.py [--write] [ROOT]

Without --write: prints one line for each test that does not exist or that `make test` may leave out
without a word of it, each row without a test, and a table that is not the file's, and exits with 1 when
there is any. With --write: puts the table into that page.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any, Dict, List, NamedTuple, Optional

from test_runs import LONG, Runs

try:
    import tomllib
except ModuleNotFoundError:  # Python before 3.11, where pytest brings the same parser
    import tomli as tomllib  # type: ignore[no-redef]

SOURCE = "docs/features.toml"
PAGE = "docs/features.md"
BEGIN = f"<!-- made from {SOURCE} by tools/features.py -->"
END = "<!-- end of the features -->"
FIELDS = {"name": str, "state": str, "tests": list}

_GTEST = re.compile(r"^(\w+)\.(\w+)$")
_GTEST_FOUND = re.compile(r"^\s*TEST(?:_F|_P)?\(\s*(\w+)\s*,\s*(\w+)\s*\)", re.MULTILINE)
_PYTEST = re.compile(r"^(tests/[\w./-]+\.py)::(test_\w+)$")


class Test(NamedTuple):
    """One test: what a reader sees, and the file that has it, from the root."""

    shown: str
    path: str


class Document(NamedTuple):
    """The rows; and by the beginning of tests' names, under which condition `make test` runs them."""

    rows: List[Dict[str, Any]]
    conditions: Dict[str, str]

    def condition(self, test: str) -> str:
        """The one with the longest beginning; "" where there is none."""
        return self.conditions.get(self.begin(test), "")

    def begin(self, test: str) -> str:
        """That beginning."""
        return max((begin for begin in self.conditions if test.startswith(begin)), key=len, default="")


def gtests(root: Path) -> Dict[str, str]:
    """Suite.Name -> file, of every test of gtest below tests/ but those that are switched off."""
    found = {}
    for path in sorted((root / "tests").rglob("*.cc")):
        for suite, name in _GTEST_FOUND.findall(path.read_text()):
            if not name.startswith("DISABLED_"):
                found[f"{suite}.{name}"] = path.relative_to(root).as_posix()
    return found


def find(root: Path, known: Dict[str, str], test: str) -> Optional[Test]:
    """The test of that name; None when there is none. `known`: as of gtests()."""
    if _GTEST.match(test):
        return Test(test, known[test]) if test in known else None
    function = _PYTEST.match(test)
    if function:
        path = root / function[1]
        head = re.compile(rf"^def {function[2]}\(", re.MULTILINE)
        defined = path.is_file() and head.search(path.read_text())
        return Test(function[2], function[1]) if defined else None
    is_file = test.startswith("tests/") and (root / test).is_file()
    return Test(Path(test).name, test) if is_file else None


def read(root: Path) -> Document:
    """The file. Raises ValueError where a field is missing, unknown or of another type."""
    document = tomllib.loads((root / SOURCE).read_text())
    for number, row in enumerate(document["feature"], 1):
        if set(row) != set(FIELDS) or any(not isinstance(row[key], FIELDS[key]) for key in FIELDS):
            raise ValueError(f"{SOURCE}: row {number} must have exactly a text name, a text state and a "
                             "list tests")
    return Document(document["feature"], document.get("conditions", {}))


def problems_of(root: Path, document: Document) -> List[str]:
    """Rows without a test, tests that do not exist or may not run, conditions of nothing, one a line."""
    known, runs, problems, needed = gtests(root), Runs(root), [], set()
    for row in document.rows:
        name = f"{SOURCE}: '{row['name'][:50]}'"
        if not row["tests"]:
            problems.append(f"{name} names no test that shows it")
        for asked in row["tests"]:
            test = find(root, known, asked)
            if test is None:
                problems.append(f"{name}: there is no test {asked}")
                continue
            doubt = runs.doubt(asked, test.path)
            if doubt and not document.condition(asked):
                problems.append(f"{name}: `make test` may not run {asked} ({doubt}): name one that it "
                                "runs, or say in [conditions] when it does")
            elif doubt == LONG and "`make test-long`" not in document.condition(asked):
                problems.append(f"{name}: {asked} is marked long: its condition must name "
                                "`make test-long`")
            if doubt:
                needed.add(document.begin(asked))
    return problems + [f"{SOURCE}: the condition of {begin} is no test's: every one of these runs"
                       for begin in document.conditions if begin not in needed]


def table(root: Path, document: Document) -> str:
    """The table in Markdown; every test has been found."""
    known, runs = gtests(root), Runs(root)
    lines = ["| feature | state | shown by |", "|---|---|---|"]
    for row in document.rows:
        shown = []
        for asked in row["tests"]:
            test = find(root, known, asked)
            assert test is not None, asked
            condition = f" ({document.condition(asked)})" if runs.doubt(asked, test.path) else ""
            shown.append(f"[{test.shown}](../{test.path}){condition}")
        lines.append(f"| {row['name']} | {row['state']} | {', '.join(shown)} |")
    return "\n".join(lines)


def with_table(page: str, made: str) -> str:
    """The page with that table between its two marks. Raises ValueError when it does not have them."""
    if page.count(BEGIN) != 1 or page.count(END) != 1:
        raise ValueError(f"{PAGE} must have the lines '{BEGIN}' and '{END}' once each")
    before, _, rest = page.partition(BEGIN)
    return f"{before}{BEGIN}\n{made}\n{END}{rest.partition(END)[2]}"


def check(root: Path, write: bool = False) -> List[str]:
    """All offences, one line each; with `write` the table is written first."""
    try:
        document = read(root)
        problems = problems_of(root, document)
        if problems:
            return problems
        page = (root / PAGE).read_text()
        made = with_table(page, table(root, document))
    except (OSError, KeyError, ValueError) as error:  # ValueError: what is no TOML, too
        return [str(error)]
    if made == page:
        return []
    if not write:
        return [f"{PAGE}: its table of features is not that of {SOURCE}: run tools/features.py --write"]
    (root / PAGE).write_text(made)
    return []


def main() -> int:
    """Entry point."""
    places = [argument for argument in sys.argv[1:] if argument != "--write"]
    root = Path(places[0]) if places else Path(__file__).resolve().parent.parent
    problems = check(root, "--write" in sys.argv[1:])
    print("\n".join(problems) or "features: ok")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
