"""This host as the kernel describes it: identity, processors, NUMA nodes, caches."""

from __future__ import annotations

import os
import platform
from pathlib import Path
from typing import Any, Dict, List, Set, Tuple

_SYS = Path("/sys/devices/system")


def topology(system: Path = _SYS) -> Dict[str, Any]:
    """Everything that is known without trying. numa_nodes and caches are empty where the kernel does not
    say, as in some containers. Raises nezha.Error for a configuration that cannot be read."""
    from nezha.queries import ask

    return {"name": platform.node(), "boot_id": _read(Path("/proc/sys/kernel/random/boot_id")),
            **ask("host"),
            "processors": os.cpu_count(), "processors_allowed": len(os.sched_getaffinity(0)),
            "numa_nodes": _numa_nodes(system / "node"), "caches": _caches(system / "cpu")}


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="ascii").strip()
    except OSError:
        return ""


def _numa_nodes(folder: Path) -> List[Dict[str, Any]]:
    """Those with processors: {"node", "processors": "0-7,16-23"}."""
    found = [(int(node.name[4:]), _read(node / "cpulist")) for node in folder.glob("node[0-9]*")]
    return [{"node": number, "processors": cpus} for number, cpus in sorted(found) if cpus]


def _caches(folder: Path) -> List[Dict[str, Any]]:
    """Kinds of caches that hold data: {"level", "size", "count", "shared_by": processors of each}."""
    kinds: Dict[Tuple[int, str], Set[str]] = {}
    for cache in folder.glob("cpu[0-9]*/cache/index[0-9]*"):
        level, size, shared = (_read(cache / name) for name in ("level", "size", "shared_cpu_list"))
        if level and shared and _read(cache / "type") in ("Data", "Unified"):
            kinds.setdefault((int(level), size), set()).add(shared)
    return [{"level": level, "size": size, "count": len(shared),
             "shared_by": max(map(_count, shared))} for (level, size), shared in sorted(kinds.items())]


def _count(cpus: str) -> int:
    """Of "0-3,8": 5."""
    total = 0
    for part in cpus.split(","):
        first, _, last = part.partition("-")
        total += int(last or first) - int(first) + 1
    return total
