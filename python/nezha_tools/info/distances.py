"""How far network adapters, GPUs and NUMA nodes of this host are from each other, as `nvidia-smi topo -m`
has it: read from sysfs, and nothing is opened or loaded.

Errors: none; what the kernel does not say is left out, or None.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Dict, Iterator, List, Optional, Tuple

SELF, PIX, PXB, PHB, NODE, SYS = "X", "PIX", "PXB", "PHB", "NODE", "SYS"
LEGEND = {
    SELF: "itself",
    PIX: "over at most one PCIe switch or bridge",
    PXB: "over several PCIe switches or bridges, and no host bridge",
    PHB: "over a PCIe host bridge, which is in the processor as a rule",
    NODE: "over two host bridges of one NUMA node",
    SYS: "over the interconnect between NUMA nodes, or the kernel does not say the NUMA node",
}

_ROOT = re.compile(r"pci[0-9a-f]{4,}:[0-9a-f]{2}")
_FUNCTION = re.compile(r"([0-9a-f]{4,}:[0-9a-f]{2}:[0-9a-f]{2})\.[0-7]")
# PCI classes. Display controllers are also in servers' management controllers, so those count by vendor.
_ACCELERATORS = ("0x0302", "0x0380", "0x1200")
_DISPLAY, _MAKERS = "0x0300", ("0x10de", "0x1002", "0x8086")
_MAKER_NAMES = {"0x10de": "NVIDIA", "0x1002": "AMD", "0x8086": "Intel", "0x1da3": "Habana"}


@dataclass(frozen=True)
class Device:
    """An adapter or GPU with a place on PCI. path: the bridges above it and itself, host bridge first.
    numa_node: None where the kernel does not say. processors: those near to it, "0-7,16-23"."""

    name: str
    kind: str
    path: Tuple[str, ...]
    numa_node: Optional[int]
    processors: str

    @property
    def address(self) -> str:
        """Its PCI address, "0000:3b:00.0"."""
        return self.path[-1]


def distance(one: Device, other: Device) -> str:
    """A key of LEGEND. Functions of one chip ("0000:3b:00.0", ".1") are as near as below one bridge; root
    ports that are functions of one chip are apart."""
    if one.path[0] != other.path[0]:
        is_known = one.numa_node is not None and one.numa_node == other.numa_node
        return NODE if is_known else SYS
    paths = [[*each.path[:-1], _FUNCTION.sub(r"\1", each.address)] for each in (one, other)]
    shared = 0
    while shared < min(map(len, paths)) and paths[0][shared] == paths[1][shared]:
        shared += 1
    if shared < 2:
        return PHB
    return PIX if max(map(len, paths)) - shared <= 2 else PXB


def distance_to_node(device: Device, node: int) -> str:
    """To the memory and processors of NUMA node `node`: over its host bridge, or further."""
    return PHB if device.numa_node == node else SYS


def find(sys: Path = Path("/sys")) -> Dict[str, Any]:
    """{"devices": [{"name", "kind": "adapter" or "gpu", "pci", "numa_node", "processors"}], "numa_nodes":
    [{"node", "processors", "distances": the kernel's own, 10 is the node itself}], "columns": names of
    devices and nodes, "distances": {name of a device: its words, by columns}, "placeless": [{"name",
    "reason"}], "legend"}."""
    nodes = list(_numa_nodes(sys / "devices/system/node"))
    devices, placeless = _adapters(sys, nodes)
    devices += _gpus(sys, nodes)
    names = [device.name for device in devices]
    return {
        "devices": [{"name": each.name, "kind": each.kind, "pci": each.address,
                     "numa_node": each.numa_node, "processors": each.processors} for each in devices],
        "numa_nodes": nodes,
        "columns": [*names, *(f"node{node['node']}" for node in nodes)],
        "distances": {one.name: [*(SELF if one is other else distance(one, other) for other in devices),
                                 *(distance_to_node(one, node["node"]) for node in nodes)]
                      for one in devices},
        "placeless": placeless, "legend": LEGEND}


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError):
        return ""


def _entries(folder: Path) -> List[Path]:
    try:
        return sorted(folder.iterdir(), key=lambda path: _in_order(path.name))
    except OSError:
        return []


def _in_order(name: str) -> List[Any]:
    """So that eth10 comes behind eth9."""
    return [(part.isdigit(), int(part) if part.isdigit() else part) for part in re.split(r"(\d+)", name)]


def _numa_nodes(folder: Path) -> Iterator[Dict[str, Any]]:
    for path in _entries(folder):
        if re.fullmatch(r"node\d+", path.name):
            yield {"node": int(path.name[4:]), "processors": _read(path / "cpulist"),
                   "distances": [int(each) for each in _read(path / "distance").split()]}


def _adapters(sys: Path, nodes: List[Dict[str, Any]]) -> Tuple[List[Device], List[Dict[str, str]]]:
    """Network devices and InfiniBand adapters, and those that have no place on PCI."""
    found: List[Device] = []
    placeless = []
    for entry in [*_entries(sys / "class/net"), *_entries(sys / "class/infiniband")]:
        if not entry.is_dir():
            continue  # bonding_masters is a file
        link = entry / "device"
        device = _device(entry.name, "adapter", link, nodes) if link.exists() else None
        if device is not None:
            found.append(device)
        else:
            placeless.append({"name": entry.name, "reason": "it is virtual" if not link.exists() else
                              "it is on another bus than PCI"})
    return found, placeless


def _gpus(sys: Path, nodes: List[Dict[str, Any]]) -> List[Device]:
    """GPUs and other accelerators in the order of their PCI addresses."""
    found: List[Device] = []
    for entry in _entries(sys / "bus/pci/devices"):
        kind, maker = _read(entry / "class")[:6], _read(entry / "vendor")
        if kind in _ACCELERATORS or (kind == _DISPLAY and maker in _MAKERS):
            name = " ".join([f"GPU{len(found)}", *filter(None, [_MAKER_NAMES.get(maker)])])
            device = _device(name, "gpu", entry, nodes)
            if device is not None:
                found.append(device)
    return found


def _device(name: str, kind: str, link: Path, nodes: List[Dict[str, Any]]) -> Optional[Device]:
    """The device behind a link into /sys/devices; None where that is not below a PCI host bridge."""
    place = link.resolve()
    parts = place.parts
    root = next((at for at, part in enumerate(parts) if _ROOT.fullmatch(part)), None)
    last = max((at for at, part in enumerate(parts) if _FUNCTION.fullmatch(part)), default=None)
    if root is None or last is None:
        return None
    function = Path(*parts[:last + 1])
    said = _read(function / "numa_node")
    node = int(said) if said.lstrip("-").isdigit() and int(said) >= 0 else None
    if node is None and len(nodes) == 1:
        node = nodes[0]["node"]
    near = _read(function / "local_cpulist") or next(
        (each["processors"] for each in nodes if each["node"] == node), "")
    return Device(name, kind, parts[root:last + 1], node, near)


def cells(found: Dict[str, Any]) -> List[List[str]]:
    """The lines of the matrix: name, distances by columns, near processors, NUMA node."""
    return [[device["name"], *found["distances"][device["name"]], device["processors"] or "-",
             "-" if device["numa_node"] is None else str(device["numa_node"]), device["pci"]]
            for device in found["devices"]]


def headings(found: Dict[str, Any]) -> List[str]:
    """Those of cells()."""
    return ["", *found["columns"], "processors", "NUMA node", "PCI address"]


def node_cells(found: Dict[str, Any]) -> List[List[str]]:
    """A line for each NUMA node: name, its processors, the kernel's distances to all nodes."""
    return [[f"node{node['node']}", node["processors"] or "none",
             " ".join(map(str, node["distances"])) or "-"] for node in found["numa_nodes"]]


def sentences(found: Dict[str, Any]) -> List[str]:
    """Who has no place, what the words mean, and what is not known here."""
    lines = [f"{each['name']} has no place on PCI: {each['reason']}." for each in found["placeless"]]
    if not found["devices"]:
        return [*lines, "No network adapter and no GPU of this host has a place on PCI."]
    used = {word for row in found["distances"].values() for word in row}
    lines += [f"{word:4} = {meaning}" for word, meaning in found["legend"].items() if word in used]
    if any(device["kind"] == "gpu" for device in found["devices"]):
        lines.append("Links between GPUs beside PCIe (NVLink, xGMI) are not in sysfs: "
                     "ask nvidia-smi topo -m or rocm-smi --showtopo.")
    return lines
