#!/usr/bin/env python3
"""Checks with Clang that nothing takes the progress lock while it has it, and that nothing which needs
the lock is called without it: src/progress/progress_lock.h.

    tools/progress_lock.py [ROOT]

Prints one line per offence and exits with 1 when there is any. All sources are one compilation, because
most of the time goes into headers. Clang comes with clang-tidy (`lint` in pyproject.toml), which has its
own headers and uses the C++ library of the installed compiler.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Iterator, List

CLANG_TIDY = Path(sys.executable).with_name("clang-tidy")
# Where all functions say what they do with the lock. A file elsewhere that takes it is looked at, too.
FOLDERS = ("src/progress/*.cc", "src/engine/*.cc", "src/context/*.cc", "src/capi/*.cc",
           "modules/aggregation/**/*.cc")
TAKES = re.compile(r"\bLoop::(Lock|Visit)\b|\bdrive_until\b")
# What Clang says where a function should say that it takes the lock. Callers of the C API have no
# lock, so its functions need not say so.
UNSAID = "requires negative capability '!kProgressLock'"
ENTRY = "src/capi/"
FLAGS = ("-xc++", "-std=c++20", "-Isrc", "-Imodules", "-Iinclude", '-DNEZHA_VERSION=""',
         '-DNEZHA_COMMIT=""', "-Wthread-safety", "-Wthread-safety-negative")
FOUND = re.compile(r"^(.+):(\d+):\d+: (?:warning|error): (.*) \[.*\]$", re.MULTILINE)


def sources(root: Path) -> List[Path]:
    """What is compiled."""
    found = {path for pattern in FOLDERS for path in root.glob(pattern)}
    for folder in ("src", "modules"):
        found |= {path for path in (root / folder).rglob("*.[ch]*") if TAKES.search(path.read_text())}
    return sorted(found)


def library() -> List[str]:
    """Where Clang finds the C++ library: by itself it takes that of the newest GCC, which may lack it."""
    asked = subprocess.run([os.environ.get("CXX", "c++"), "-print-libgcc-file-name"], text=True,
                           stdout=subprocess.PIPE, check=False).stdout.strip()
    folder = Path(asked).parent
    return [f"--gcc-install-dir={folder}"] if (folder / "crtbegin.o").exists() else []


def offences(root: Path, text: str) -> Iterator[str]:
    """What Clang says of a source with this text, which may include the headers of the project."""
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "sources.cc"
        source.write_text(text)
        said = subprocess.run([CLANG_TIDY, "--quiet", "--allow-no-checks",
                               "--checks=-*,clang-diagnostic-thread-safety*", source, "--", *FLAGS,
                               *library()], cwd=root, text=True, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, check=False)
    found = FOUND.findall(said.stdout)
    if said.returncode != 0 and not found:
        yield f"{CLANG_TIDY.name} failed: {(said.stderr or said.stdout).strip()}"
    for path, line, message in dict.fromkeys(found):
        name = os.path.relpath(root / path, root)
        if not (name.startswith(ENTRY) and UNSAID in message):
            yield f"{name}:{line}: {message.replace(UNSAID, 'requires NEZHA_EXCLUDES_LOCK')}"


def check(root: Path) -> List[str]:
    """All offences, one line each."""
    return list(offences(root, "".join(f'#include "{path}"\n' for path in sources(root))))


def main() -> int:
    """Entry point."""
    root = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).resolve().parent.parent
    if not CLANG_TIDY.exists():
        print("progress lock: skipped: there is no clang-tidy beside this Python; pip install clang-tidy")
        return 0
    problems = check(root.resolve())
    print("\n".join(problems) or "progress lock: ok")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
