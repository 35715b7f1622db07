"""What `nezha info` says of networks that add up: the configured aggregation node, and NVIDIA's SHARP."""

from __future__ import annotations

import glob
import os
from typing import Any, Dict, List, Optional

_SHARP = "libsharp_coll.so"
_FOLDERS = ("/opt/mellanox/sharp/lib", "/usr/lib", "/usr/lib64", "/usr/local/lib", "/usr/lib/*-linux-gnu")


def find_sharp() -> Optional[str]:
    """Path of NVIDIA's SHARP library, None where it is not installed. Loads nothing."""
    folders = [folder for folder in os.environ.get("LD_LIBRARY_PATH", "").split(":") if folder]
    for folder in (*folders, *_FOLDERS):
        found = sorted(glob.glob(os.path.join(folder, _SHARP + "*")))
        if found:
            return found[0]
    return None


def describe() -> Dict[str, Any]:
    """For programs: {"node": the library's "aggregator" answer, "sharp": path or None}."""
    from nezha.queries import ask

    return {"node": ask("aggregator"), "sharp": find_sharp()}


def sentences(found: Dict[str, Any]) -> List[str]:
    """The same for people, a line each."""
    return [_node(found["node"]), _sharp(found["sharp"])]


def _node(node: Dict[str, Any]) -> str:
    if not node["configured"]:
        return "Aggregation node: none is configured (NEZHA_AGGREGATOR; docs/aggregation.md)."
    name = f"Aggregation node {node['configured']}"
    if not node["reachable"]:
        return f"{name}: does not answer: {node['reason']}"
    nodes = node["topology"]["nodes"]
    if len(nodes) == 1:
        return f"{name}: answers; it is the only one."
    tree = ", ".join(each["name"] + (f" below {each['parent']}" if each.get("parent") else "")
                     for each in nodes)
    leaf = (f"{node['served_by']} serves this host" if node["served_by"]
            else "NONE SERVES THIS HOST: add it to a node's \"serves\"")
    return f"{name}: answers; {len(nodes)} nodes ({tree}); {leaf}."


def _sharp(path: Optional[str]) -> str:
    if path is None:
        return f"NVIDIA SHARP: its library ({_SHARP}) is not installed."
    return (f"NVIDIA SHARP: {path} is installed; Nezha does not use it yet. Where it would go: "
            "docs/aggregation.md, \"Hardware that aggregates\".")
