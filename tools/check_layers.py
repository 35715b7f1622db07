#!/usr/bin/env python3
"""Checks that no layer includes a layer above it: docs/architecture.md, "The layers".

    tools/check_layers.py [ROOT]

Prints one line per offence and exits with 1 when there is any.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Dict, Iterator, List, Optional, Set, Tuple

# layer -> the layers it may include, besides itself
ALLOWED: Dict[str, Set[str]] = {
    "base": set(),
    "reduce": {"base"},
    "wire": {"base"},
    "schedule": {"base"},
    "schedule/proof": {"base", "schedule"},
    "control/policies": {"base", "schedule", "control"},
    "control": {"base", "schedule"},
    "progress": {"base"},
    "memory": {"base", "reduce", "wire"},
    "transport": {"base", "wire", "progress"},
    "rendezvous": {"base"},
    "engine": {"base", "reduce", "wire", "schedule", "control", "control/policies", "progress",
               "memory", "transport"},
    "context": {"base", "reduce", "wire", "schedule", "schedule/proof", "control", "control/policies",
                "progress", "memory", "transport", "rendezvous", "engine", "aggregation"},
    "aggregation": {"base", "wire", "schedule", "control", "control/policies", "progress",
                    "transport", "engine"},
    "capi": {"base", "reduce", "wire", "schedule", "schedule/proof", "control", "control/policies",
             "memory", "context", "aggregation", "nezha"},
}
# Where the parts of a rank, and of an aggregation node, are put together: they may name transports.
COMPOSING = ("context", "aggregation")
# All that the context sees of aggregation.
NARROW = "aggregation/aggregation.h"
# Layers without I/O, time, threads and logging: the same source runs in simulators and verifiers.
PURE = {"schedule", "schedule/proof", "control/policies"}
IMPURE = re.compile(
    r"<(thread|mutex|shared_mutex|atomic|condition_variable|future|chrono|iostream|fstream|"
    r"ctime|filesystem|unistd\.h|sys/.*|netinet/.*|arpa/.*|pthread\.h|fcntl\.h|poll\.h)>"
    r"|\"(base/(log|clock)\.h)\"")
INCLUDE = re.compile(r'^\s*#\s*include\s+(<[^>]+>|"[^"]+")', re.MULTILINE)


def layer_of(path: str) -> str:
    """The layer of a file below src/, or of an include: "control/policies" before "control"."""
    parts = path.split("/")
    nested = "/".join(parts[:2])
    return nested if nested in ALLOWED and len(parts) > 2 else parts[0]


def transport_of(path: str) -> Optional[str]:
    """The concrete transport ("tcp") that a file belongs to; None for interfaces and others."""
    parts = path.split("/")
    return parts[1] if parts[0] == "transport" and len(parts) > 2 else None


def offence(path: str, included: str) -> Optional[str]:
    """Why the file `path` (below src/) may not include `included`; None when it may."""
    own = layer_of(path)
    if own in PURE and IMPURE.search(included):
        return "this layer is pure: no I/O, time, threads or logging"
    if included.startswith("<"):
        return None
    name = included.strip('"')
    if "/" not in name:
        return "write the path from src/, such as base/status.h"
    other = layer_of(name)
    if other != own and other not in ALLOWED.get(own, set()):
        return f"{own} may include only {', '.join(sorted(ALLOWED.get(own, set()))) or 'itself'}"
    if own == "context" and other == "aggregation" and name != NARROW:
        return f"of aggregation, context may include only {NARROW}"
    concrete = transport_of(name)
    shared = concrete == "connect" and own == "transport"
    if concrete is not None and own not in COMPOSING and concrete != transport_of(path) and not shared:
        return f"only {'/, '.join(COMPOSING)}/ and transport/{concrete}/ itself may name that transport"
    return None


def module_offence(included: str) -> Optional[str]:
    """The same for python/src: the module sees the C API and itself."""
    name = included.strip('"')
    if included.startswith("<") or "/" not in name or name.startswith("nezha/"):
        return None
    return "the Python module uses include/nezha and nothing below it"


def includes(root: Path, folder: str) -> Iterator[Tuple[Path, str, int, str]]:
    """(file, its path below the folder, line, what it includes)."""
    for path in sorted((root / folder).rglob("*")):
        if path.suffix not in (".h", ".cc", ".inc"):
            continue
        text = path.read_text()
        for found in INCLUDE.finditer(text):
            line = text.count("\n", 0, found.start(1)) + 1
            yield path, path.relative_to(root / folder).as_posix(), line, found.group(1)


def check(root: Path) -> List[str]:
    """All offences, one line each."""
    problems = []
    for path, relative, line, included in includes(root, "src"):
        reason = offence(relative, included)
        if layer_of(relative) not in ALLOWED:
            reason = "a new layer: say in tools/check_layers.py what it may include"
        if reason:
            problems.append(f"{path.relative_to(root)}:{line}: includes {included}: {reason}")
    for path, _, line, included in includes(root, "python/src"):
        reason = module_offence(included)
        if reason:
            problems.append(f"{path.relative_to(root)}:{line}: includes {included}: {reason}")
    return problems


def main() -> int:
    """Entry point."""
    root = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).resolve().parent.parent
    problems = check(root)
    print("\n".join(problems) or "layers: ok")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
