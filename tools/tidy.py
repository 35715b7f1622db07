#!/usr/bin/env python3
"""Checks the house rules that a program can see; CONTRIBUTING.md says why they are there.

    tools/tidy.py [ROOT]

Files of at most 600 lines, functions of 70 lines, lines of about 100 columns in C++ (ruff looks at those
of Python); the environment is read in src/base/config.cc only; no invented words for what the field has a
word for; no notes to oneself and no traces of the machine a change was made on; no advice to install
the package index's package of this name, which is another project.
Prints one line per offence and exits with 1 when there is any.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path
from typing import Iterator, List, Tuple

FILE_LINES_MAX = 600
LINE_COLUMNS_MAX = 106  # ruff's, too. Write 100; a word more is no reason to break a sentence
FUNCTION_LINES_MAX = 70

CPP = {".h", ".cc", ".inc", ".c"}
PYTHON = {".py", ".pyi"}
FOLDERS = ("src", "modules", "include", "python", "tests", "tools", "bench", "examples")
TEXT = CPP | PYTHON | {".md", ".txt", ".cmake", ".toml", ".json", ".yml", ".sh", ""}

# Put together here, so that this file does not offend itself.
FORBIDDEN = re.compile("|".join((
    r"\bTO" + r"DO\b", r"\bFIX" + r"ME\b", r"\bXX" + r"X\b", r"/wo" + r"rk/(main|shared)",
    r"/fa" + r"rm/", r"bash" + r"_jobs", r"developer " + r"session", r"this " + r"session")),
    re.IGNORECASE)
# That package belongs to somebody else.
OF_OTHERS = re.compile(r"pip3? install( -\S+)* ['\"]?nez" + r"ha\b(?!-comm)")
# Words that no engineer of networks uses for these things, in code and prose, and a second spelling of
# one that they use; the glossary in docs/architecture.md has the words that are used. In names of types,
# and anywhere.
INVENTED_TYPE = re.compile(r"^\s*(?:class|struct|enum class)\s+\w*(Baton|Trial|Rejoin|Meeting|Limbo|Ghost"
                           r"|Dice|Council|Knock|Door|Guest(?!\b)|Desk|Letter|Enlist|Hub|Asker|Seat|Gossip)")
INVENTED = re.compile(r"(?<![a-z])(councils?|doors?|knock(s|ed|ing)?|(hung|hangs?) up|buried|cured?"
                      r"|mend(s|ed|ing)?|hubs?|desks?|ghosts?|limbo|dice|batons?|seats?|funerals?|diallers?)"
                      r"(?![a-z])", re.IGNORECASE)
# These have the words themselves, and the old names of what was renamed.
NAMES_INVENTED = ("tools/tidy.py", "tests/python/test_tools.py", "CHANGELOG.md")
GETENV = re.compile(r"\b(secure_)?getenv\s*\(|\benviron\b(?!ment)")
# Options; what launchers leave; and programs of their own.
GETENV_ALLOWED = ("src/base/config.cc", "src/context/launch_environment.cc", "tests/support/form.h",
                  "examples/", "bench/")

# What leaves this host is put together number by number, or it has the padding and byte order of one.
RAW_STRUCT = re.compile(r"reinterpret_cast<(const )?(char|std::byte)\*>\(&(?!bytes)\w"
                        r"|memcpy\(&\w[\w.>-]*, \w+")
RAW_STRUCT_REFUSED = ("src/wire/", "src/transport/", "src/rendezvous/", "src/context/", "src/engine/",
                      "src/base/blob.h", "modules/")
RAW_STRUCT_ALLOWED = ("modules/fabric/fabric_sockets.cc", "modules/fabric/fabric_device.cc",
                      "src/transport/shm/shm_socket.cc",  # the kernel's own structs
                      "src/wire/little_endian.h")

_BLANK = re.compile(r'//[^\n]*|/\*.*?\*/|R"\((?:.|\n)*?\)"|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])+\''
                    r"|^[ \t]*#(?:[^\n]*\\\n)*[^\n]*", re.DOTALL | re.MULTILINE)
_NO_FUNCTION = re.compile(r"^\s*(namespace|class|struct|enum|union|extern|typedef|using)\b")


def python_functions(text: str) -> Iterator[Tuple[str, int, int]]:
    """(name, first line, number of lines) of every function."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield node.name, node.lineno, (node.end_lineno or node.lineno) - node.lineno + 1


def cpp_functions(text: str) -> Iterator[Tuple[str, int, int]]:
    """The same for C++, by its braces: lambdas count with the function around them."""
    code = _BLANK.sub(lambda m: "".join(c if c == "\n" else " " for c in m.group()), text)
    depth, head_start, function_depth, begin, head = 0, 0, -1, 0, ""
    for position, character in enumerate(code):
        if character == "{":
            if function_depth < 0 and is_function_head(code[head_start:position]):
                function_depth, head = depth, code[head_start:position].strip()
                begin = head_start + len(code[head_start:position]) - len(
                    code[head_start:position].lstrip())
            depth += 1
        elif character == "}":
            depth -= 1
            if depth == function_depth:
                first = code.count("\n", 0, begin) + 1
                yield (head.partition("(")[0].split() or ["?"])[-1], first, (
                    code.count("\n", 0, position) + 2 - first)
                function_depth = -1
        if character in "{};":
            head_start = position + 1


def is_function_head(head: str) -> bool:
    """Whether what stands before a brace begins a function's body."""
    if "(" not in head or _NO_FUNCTION.match(head):
        return False
    before = head.partition("(")[0]
    return "=" not in before or "operator" in before


def check_text(name: str, suffix: str, text: str) -> Iterator[str]:
    """Offences of one file; `name` is its path from the root."""
    lines = text.split("\n")
    for number, line in enumerate(lines, 1):
        if FORBIDDEN.search(line):
            yield f"{name}:{number}: a note or a path that does not belong here: {line.strip()[:60]}"
        if OF_OTHERS.search(line):
            yield f"{name}:{number}: installs somebody else's package: {line.strip()[:60]}"
        if name not in NAMES_INVENTED and (INVENTED.search(line) or INVENTED_TYPE.match(line)):
            yield f"{name}:{number}: a word that the field does not use: {line.strip()[:60]}"
    if suffix not in CPP | PYTHON:
        return
    if len(lines) - 1 > FILE_LINES_MAX:
        yield f"{name}: {len(lines) - 1} lines, at most {FILE_LINES_MAX}: split it by purpose"
    for number, line in enumerate(lines, 1):
        if suffix in CPP and len(line) > LINE_COLUMNS_MAX:
            yield f"{name}:{number}: {len(line)} columns, at most {LINE_COLUMNS_MAX}"
        raw = name.startswith(RAW_STRUCT_REFUSED) and not name.startswith(RAW_STRUCT_ALLOWED)
        if raw and RAW_STRUCT.search(line):
            yield f"{name}:{number}: a struct as it lies in memory; use wire/little_endian.h"
        if suffix in CPP and GETENV.search(line) and not name.startswith(GETENV_ALLOWED):
            yield f"{name}:{number}: only {GETENV_ALLOWED[0]} reads the environment"
    functions = python_functions(text) if suffix in PYTHON else cpp_functions(text)
    for function, first, length in functions:
        if length > FUNCTION_LINES_MAX:
            yield f"{name}:{first}: {function} has {length} lines, at most {FUNCTION_LINES_MAX}"


def files(root: Path) -> List[Path]:
    """What git knows of the project; every file below the known folders outside a checkout."""
    listed = subprocess.run(["git", "-C", str(root), "ls-files", "-z"], capture_output=True)
    if listed.returncode == 0 and listed.stdout:
        return [root / name for name in listed.stdout.decode().split("\0") if name]
    return [path for folder in FOLDERS for path in sorted((root / folder).rglob("*"))
            if path.is_file()]


def check(root: Path) -> List[str]:
    """All offences, one line each."""
    problems: List[str] = []
    for path in files(root):
        if path.suffix not in TEXT or path.name == "LICENSE" or not path.is_file():
            continue
        try:
            text = path.read_text()
        except UnicodeDecodeError:
            continue
        problems += check_text(path.relative_to(root).as_posix(), path.suffix, text)
    return problems


def main() -> int:
    """Entry point."""
    root = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).resolve().parent.parent
    problems = check(root)
    print("\n".join(problems) or "tidy: ok")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
