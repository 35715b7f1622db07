#!/usr/bin/env python3
"""Checks that no layer includes a layer above it, and that no Python package imports one that is built on
it: docs/architecture.md, "The layers"; and that each folder of the engine has a test of its own.

    tools/check_layers.py [ROOT]

Prints one line per offence and exits with 1 when there is any.
"""

from __future__ import annotations

import ast
import re
import sys
from pathlib import Path
from typing import Dict, Iterator, List, Optional, Set, Tuple

# What every file of the engine may include.
ENGINE = {"base", "reduce", "wire", "schedule", "rails", "rails/policies", "progress", "memory",
          "transport"}
# Folder of the engine -> the other folders of it that it may include. Files beside the folders see all.
ROOMS: Dict[str, Set[str]] = {
    "engine/common": set(),
    "engine/endpoint": {"engine/common"},
    "engine/group": {"engine/common", "engine/endpoint"},
    "engine/flow": {"engine/common", "engine/endpoint", "engine/group"},
    "engine/operation": {"engine/common", "engine/endpoint", "engine/group", "engine/flow"},
    "engine/messages": {"engine/common", "engine/endpoint", "engine/group", "engine/flow"},
    "engine/observer": {"engine/common", "engine/group", "engine/operation"},
    "engine/membership": {"engine/common", "engine/endpoint", "engine/group", "engine/flow",
                          "engine/observer"},
}
# layer -> the layers it may include, besides itself
ALLOWED: Dict[str, Set[str]] = {
    "base": set(),
    "reduce": {"base"},
    "wire": {"base"},
    "schedule": {"base"},
    "rails/policies": {"base", "schedule", "rails"},
    "rails": {"base", "schedule"},
    "progress": {"base"},
    "memory": {"base", "reduce", "wire"},
    "transport": {"base", "wire", "progress"},
    "rendezvous": {"base"},
    "engine": ENGINE | set(ROOMS),
    **{room: ENGINE | seen for room, seen in ROOMS.items()},
    "context": {"base", "reduce", "wire", "schedule", "rails", "rails/policies",
                "progress", "memory", "transport", "rendezvous", "engine"} | set(ROOMS),
    "capi": {"base", "reduce", "wire", "rails", "context", "nezha"},
}
# Where the parts of a rank are put together: it may name transports.
COMPOSING = "context"
# Folder of modules/ -> what its files see of src/, header by header. No file of src/ sees a module.
MODULES: Dict[str, Set[str]] = {
    "allocation": {
        "base/clock.h", "base/module.h", "base/status.h", "rails/policy.h",
        "engine/endpoint/message_gate.h", "engine/endpoint/peer_links.h", "transport/work_request.h",
        "wire/control_headers.h"},
    "paper": {
        "base/json.h", "base/module.h", "base/types.h", "rails/policies/idle_probe.h",
        "rails/policies/interference.h", "rails/policies/policies.h", "rails/policy.h"},
    "aggregation": {
        "base/blob.h", "base/check.h", "base/clean_text.h", "base/clock.h", "base/config.h",
        "base/descriptor.h", "base/hex.h", "base/interrupt.h", "base/ip_prefix.h", "base/json.h",
        "base/log.h", "base/module.h", "base/number_hash.h", "base/socket_address.h", "base/status.h",
        "base/transitions.h", "context/aggregation.h", "rails/policies/aggregation_shares.h",
        "rails/policy.h", "rails/rail_selector.h", "engine/common/comm_number.h",
        "engine/engine.h", "engine/group_calls.h", "nezha/aggregator.h", "progress/loop.h",
        "schedule/aggregation.h", "schedule/chunk_map.h", "schedule/plan.h",
        "transport/connect/connector.h", "transport/connect/handshake.h",
        "transport/connect/strangers.h", "transport/rail_socket.h", "transport/tcp/tcp_address.h",
        "transport/tcp/tcp_opener.h", "transport/transport.h", "wire/handshake.h", "wire/key_file.h",
        "wire/little_endian.h"},
    "fabric": {
        "base/check.h", "base/clock.h", "base/config.h", "base/copy.h", "base/fork_guard.h",
        "base/ip_prefix.h", "base/json.h", "base/module.h", "base/status.h", "base/transitions.h",
        "rails/policy.h", "rails/rail_selector.h",
        "progress/loop.h",
        "transport/connect/connector.h", "transport/connect/mesh_builder.h",
        "transport/connect/rail_test.h", "transport/connect/same_network.h", "transport/rail_kind.h",
        "transport/rail_socket.h", "transport/transport.h", "transport/wire.h", "wire/frame.h",
        "wire/handshake.h", "wire/little_endian.h"},
    "protection": {
        "base/crypto_use.h", "base/module.h", "base/secret.h", "base/status.h",
        "transport/connect/stream_protection.h", "transport/connect/tcp_stream.h", "wire/handshake.h",
        "wire/little_endian.h"},
    "proof": {
        "base/module.h", "base/status.h", "schedule/algorithm_reader.h", "schedule/catalog.h",
        "schedule/file_algorithm.h", "schedule/schedule.h"},
    "queries": {
        "base/clock.h", "base/json.h", "base/module.h", "base/status.h", "base/types.h",
        "capi/queries.h", "rails/policies/aggregation_shares.h", "rails/policies/binder.h",
        "rails/policies/eq.h", "rails/policy.h", "rails/rail_monitor.h", "memory/area.h",
        "memory/pieces.h", "reduce/reduce.h", "schedule/candidates.h", "schedule/hierarchy.h",
        "schedule/plan.h"},
    "redis": {
        "base/clean_text.h", "base/clock.h", "base/crypto_use.h", "base/descriptor.h",
        "base/hidden_text.h", "base/interrupt.h", "base/log.h", "base/module.h",
        "base/socket_address.h", "base/status.h", "rendezvous/address.h", "rendezvous/checked_store.h",
        "rendezvous/socket.h", "rendezvous/store.h", "rendezvous/store_module.h",
        "rendezvous/waiting.h"},
}
# Folder of modules/ -> the other folders that it sees, and is linked with.
MODULE_SEES: Dict[str, Set[str]] = {"queries": {"proof"}}
# Layers without I/O, time, threads and logging: the same source runs in simulators and verifiers.
PURE = {"schedule", "rails/policies"}
# The same of modules, apart from the file by which they are opened.
PURE_MODULES = {"proof"}
ENTRY = "module.cc"
IMPURE = re.compile(
    r"<(thread|mutex|shared_mutex|atomic|condition_variable|future|chrono|iostream|fstream|"
    r"ctime|filesystem|unistd\.h|sys/.*|netinet/.*|arpa/.*|pthread\.h|fcntl\.h|poll\.h)>"
    r"|\"(base/(log|clock)\.h)\"")
# Python package -> the packages of this repository that it may import, besides itself. Of another one it
# sees modules whose names begin with no underscore.
PACKAGES: Dict[str, Set[str]] = {"nezha": set(), "nezha_tools": {"nezha"},
                                 "nezha_study": {"nezha", "nezha_tools"}}
# The native module holds the aggregation node, too: (file, module of another package).
PRIVATE_SEEN = {("nezha_tools/aggregator/service.py", "nezha._native")}
# Programs import these with nothing but Python installed. A function that needs NumPy imports it.
BARE = ("nezha/",)
NOT_BARE = ("nezha/torch/",)
# The table of the tests that each folder of the engine has.
PAGE_OF_ROOMS = "docs/architecture.md"
TESTS_OF_ROOMS = "| room | tests in `tests/unit/` |\n"
ROW = re.compile(r"^\| `(\w+)` \| (.*) \|$", re.MULTILINE)
DEFINED = re.compile(r"^(?:class|struct) (\w+)(?: final)?(?: :|(?: [^;]*)?\{)", re.MULTILINE)
DECLARED = re.compile(r"^(?:class|struct) (\w+);", re.MULTILINE)
INCLUDE = re.compile(r'^\s*#\s*include\s+(<[^>]+>|"[^"]+")', re.MULTILINE)


def layer_of(path: str) -> str:
    """The layer of a file below src/, or of an include: "rails/policies" before "rails"."""
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
    if name.split("/")[0] in MODULES:
        return "the library knows no module by name"
    other = layer_of(name)
    if other != own and other not in ALLOWED.get(own, set()):
        return f"{own} may include only {', '.join(sorted(ALLOWED.get(own, set()))) or 'itself'}"
    concrete = transport_of(name)
    shared = concrete == "connect" and own == "transport"
    if concrete is not None and own != COMPOSING and concrete != transport_of(path) and not shared:
        return f"only {COMPOSING}/ and transport/{concrete}/ itself may name that transport"
    return None


def module_offence(included: str) -> Optional[str]:
    """The same for python/src: the module sees the C API and itself."""
    name = included.strip('"')
    if included.startswith("<") or "/" not in name or name.startswith("nezha/"):
        return None
    return "the Python module uses include/nezha and nothing below it"


def offence_of_module(path: str, included: str) -> Optional[str]:
    """Why the file `path` (below modules/) may not include `included`; None when it may."""
    (own, *parts), name = path.split("/"), included.strip('"')
    impure = name == "base/module.h" or IMPURE.search(included)
    if own in PURE_MODULES and parts != [ENTRY] and impure:
        return "this module is pure: no I/O, time, threads or logging"
    seen = {own} | MODULE_SEES.get(own, set())
    if included.startswith("<") or name.split("/")[0] in seen or name in MODULES.get(own, set()):
        return None
    return f"not among what modules/{own} sees of the library (MODULES in tools/check_layers.py)"


def includes(root: Path, folder: str) -> Iterator[Tuple[Path, str, int, str]]:
    """(file, its path below the folder, line, what it includes)."""
    for path in sorted((root / folder).rglob("*")):
        if path.suffix not in (".h", ".cc", ".inc"):
            continue
        text = path.read_text()
        for found in INCLUDE.finditer(text):
            line = text.count("\n", 0, found.start(1)) + 1
            yield path, path.relative_to(root / folder).as_posix(), line, found.group(1)


def declared_above(root: Path) -> List[str]:
    """Declarations of classes that are defined in a layer which their file may not include: a reference
    to such a class is as good as an include."""
    headers = {path.relative_to(root / "src").as_posix(): path.read_text()
               for path in sorted((root / "src").rglob("*.h"))}
    homes: Dict[str, Set[str]] = {}
    for path, text in headers.items():
        for name in DEFINED.findall(text):
            homes.setdefault(name, set()).add(layer_of(path))
    problems = []
    for path, text in headers.items():
        own = layer_of(path)
        for name in DECLARED.findall(text):
            seen = homes.get(name, {own})
            if not seen & (ALLOWED.get(own, set()) | {own}):
                problems.append(f"src/{path}: declares {name} of {', '.join(sorted(seen))}, "
                                "which it may not include")
    return problems


def imported(tree: ast.Module) -> Iterator[Tuple[int, str, bool]]:
    """(line, module, whether it happens as soon as the file is imported). Relative imports stay inside a
    package, and are left out; a name that is imported counts as a module: it may be one."""
    at_once = {id(node) for node in tree.body}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for each in node.names:
                yield node.lineno, each.name, id(node) in at_once
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            for each in node.names:
                yield node.lineno, f"{node.module}.{each.name}", id(node) in at_once


def package_offence(path: str, module: str, at_once: bool) -> Optional[str]:
    """Why the file `path` (below python/) may not import `module`; None when it may."""
    own, (other, *parts) = path.split("/")[0], module.split(".")
    if other in PACKAGES and other != own:
        if other not in PACKAGES[own]:
            return f"{own} may import only {', '.join(sorted(PACKAGES[own])) or 'itself'}"
        private = next((part for part in parts if re.match(r"_[a-z]", part)), None)
        if private and (path, f"{other}.{private}") not in PRIVATE_SEEN:
            return f"{private} is private to {other}"
    bare = path.startswith(BARE) and not path.startswith(NOT_BARE)
    if bare and at_once and other != own and other not in sys.stdlib_module_names:
        return "programs import this without any library installed: import it where it is used"
    return None


def check_packages(root: Path) -> List[str]:
    """The same for the packages below python/."""
    problems = []
    for path in sorted(each for name in PACKAGES for each in (root / "python" / name).rglob("*.py")):
        relative = path.relative_to(root / "python").as_posix()
        for line, module, at_once in imported(ast.parse(path.read_text())):
            reason = package_offence(relative, module, at_once)
            if reason:
                problems.append(f"python/{relative}:{line}: imports {module}: {reason}")
    return problems


def untested_rooms(root: Path) -> List[str]:
    """Folders of the engine without a test in the table of docs/architecture.md, and tests in it that do
    not exist."""
    page = root / PAGE_OF_ROOMS
    rooms = sorted(path for path in (root / "src/engine").glob("*") if path.is_dir())
    if not page.exists():
        return []
    _, _, table = page.read_text().partition(TESTS_OF_ROOMS)
    named = {room: re.findall(r"`(\w+\.cc)`", tests)
             for room, tests in ROW.findall(table.partition("\n\n")[0])}
    problems = [f"{PAGE_OF_ROOMS}: names no test of src/engine/{room.name}"
                for room in rooms if not named.get(room.name)]
    return problems + [f"{PAGE_OF_ROOMS}: {room} has no test {test}" for room, tests in named.items()
                       for test in tests if not (root / "tests/unit" / test).exists()]


def check(root: Path) -> List[str]:
    """All offences, one line each."""
    problems = check_packages(root) + declared_above(root) + untested_rooms(root)
    for path, relative, line, included in includes(root, "src"):
        reason = offence(relative, included)
        if layer_of(relative) not in ALLOWED:
            reason = "a new layer: say in tools/check_layers.py what it may include"
        if reason:
            problems.append(f"{path.relative_to(root)}:{line}: includes {included}: {reason}")
    for path, relative, line, included in includes(root, "modules"):
        reason = offence_of_module(relative, included)
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
