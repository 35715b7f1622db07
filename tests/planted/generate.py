#!/usr/bin/env python3
"""Copies the library's protocol sources, each planted bug (bugs.py) made a choice at run time.

    generate.py ROOT OUT_DIR

Every place that a bug names becomes `planted::active == k ? (mutated) : (original)`, or the like for
statements; k = 0 is the library as it is. Writes OUT_DIR/<layer>/<file> for every file of the layers that
have bugs, OUT_DIR/planted.h, and OUT_DIR/planted.cc with the table of bugs. Exits with 1 and one line per
bug whose text is not found exactly once: the list is part of the tests, so it has to follow the source.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Dict, List, Tuple

from bugs import BUGS, Bug

# Headers of these layers are copied with their sources, so that one version of each is compiled.
LAYERS = ("src/base", "src/engine", "src/wire", "src/rails", "src/memory", "src/schedule",
          "src/transport", "src/rendezvous", "src/context", "modules/aggregation", "modules/fabric")

HEADER = """// Which planted bug is active; 0: none.
#pragma once

namespace planted {

struct Bug {
  const char* name;
  const char* file;
  const char* pitfall;
};
extern int active;
extern const Bug kBugs[];  // of number 1 and up
extern const int kBugCount;

}  // namespace planted
"""


def is_statement(text: str) -> bool:
    """Whether the text is one or more whole statements, and no expression."""
    return text.rstrip().endswith((";", "}"))


def choice(number: int, bug: Bug) -> str:
    """The text that takes the place of the original."""
    if is_statement(bug.original):
        return (f"if (::planted::active == {number}) {{ {bug.mutated} }} "
                f"else {{ {bug.original} }}")
    return f"(::planted::active == {number} ? ({bug.mutated}) : ({bug.original}))"


def combine(bugs: List[Tuple[int, Bug]]) -> str:
    """The text that takes the place of one original which several bugs change."""
    text = bugs[0][1].original
    for number, bug in bugs:
        text = choice(number, Bug(bug.name, bug.file, text, bug.mutated, bug.pitfall))
    return text


def plant(source: str, bugs: List[Tuple[int, Bug]], problems: List[str]) -> str:
    """The source with all of its bugs in it; what is not found is added to `problems`."""
    places: Dict[Tuple[int, int], List[Tuple[int, Bug]]] = {}
    for number, bug in bugs:
        count = source.count(bug.original)
        if count != 1:
            problems.append(f"{bug.name}: its text occurs {count} times in {bug.file}: {bug.original!r}")
            continue
        if not bug.mutated:
            problems.append(f"{bug.name}: changes its text to nothing")
            continue
        begin = source.index(bug.original)
        places.setdefault((begin, begin + len(bug.original)), []).append((number, bug))
    ordered = sorted(places)
    for first, second in zip(ordered, ordered[1:]):
        if second[0] < first[1]:
            problems.append(f"{places[second][0][1].name}: overlaps {places[first][0][1].name}; name "
                            "both by the same text")
    for span in reversed(ordered):
        source = source[:span[0]] + combine(places[span]) + source[span[1]:]
    return source


def quoted(text: str) -> str:
    """A C++ string literal."""
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def write_if_changed(path: Path, text: str) -> None:
    """Leaves a file that is up to date alone, so that nothing is compiled again for it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if not path.exists() or path.read_text() != text:
        path.write_text(text)


def main(argv: List[str]) -> int:
    """Writes the copies; returns the exit status."""
    if len(argv) != 3:
        print(__doc__, file=sys.stderr)
        return 2
    root, out = Path(argv[1]), Path(argv[2])
    problems: List[str] = []
    by_file: Dict[str, List[Tuple[int, Bug]]] = {}
    names = list(dict.fromkeys(bug.name for bug in BUGS))  # several places may be one bug
    for bug in BUGS:
        by_file.setdefault(bug.file, []).append((names.index(bug.name) + 1, bug))
        if bug.file.split("/")[0] not in {layer.partition("/")[2] for layer in LAYERS}:
            problems.append(f"{bug.name}: {bug.file} is in none of the layers {', '.join(LAYERS)}")
    for layer in LAYERS:
        for path in sorted((root / layer).rglob("*")):
            if path.suffix not in (".h", ".cc", ".inc"):
                continue
            name = str(path.relative_to((root / layer).parent))
            text = path.read_text()
            if name in by_file:
                text = '#include "planted.h"\n' + plant(text, by_file.pop(name), problems)
            write_if_changed(out / name, text)
    problems += [f"{bugs[0][1].name}: there is no file {name}" for name, bugs in by_file.items()]
    write_if_changed(out / "planted.h", HEADER)
    of_name = {bug.name: bug for bug in reversed(BUGS)}
    rows = "".join(f"    {{{quoted(name)}, {quoted(of_name[name].file)}, "
                   f"{quoted(of_name[name].pitfall)}}},\n" for name in names)
    write_if_changed(out / "planted.cc", '#include "planted.h"\n\nnamespace planted {\n\n'
                     f"int active = 0;\nconst Bug kBugs[] = {{\n    {{\"\", \"\", \"\"}},\n{rows}}};\n"
                     f"const int kBugCount = {len(names)};\n\n}}  // namespace planted\n")
    for problem in problems:
        print(problem, file=sys.stderr)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv))
