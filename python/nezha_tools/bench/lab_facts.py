"""What a result must state about the lab it was made in, read from the lab's own record.

Works from outside the lab and from a rank inside it, and changes nothing.
"""

from __future__ import annotations

import os
import platform
from typing import Any, Dict, Optional

from ..lab import LabError, _state


def lab_facts(name: str) -> Dict[str, Any]:
    """Congestion control, queue, shaping, bucket sizes and MTU of the lab `name`; raises LabError."""
    lab = _state.load(name)
    ports = lab.nodes[0].ports
    return {
        "mode": lab.mode,
        "shaped": lab.mode != "loopback" and any(port.rate for port in ports),
        "congestion_control": lab.congestion_control or "the host's",
        "queue_ms": lab.queue_ms,
        "shaping": lab.shaping,
        "burst_bytes": [lab.burst_of(port.rate) for port in ports],
        "mtu": [port.mtu for port in ports],
    }


def lab_rates(name: str, node: int = 0) -> Dict[str, float]:
    """Raw bytes per second by device of one node; only the shaped ones. Raises LabError."""
    return {port.device: port.rate / 8 for port in _state.load(name).nodes[node].ports if port.rate}


def surrounding_lab() -> Optional[str]:
    """The lab this process is a node of; None outside of labs, and where its record is gone."""
    name = os.environ.get("NEZHA_LAB")
    if not name:
        return None
    try:
        _state.load(name)
    except LabError:
        return None
    return name


def surrounding_rates() -> Dict[str, float]:
    """lab_rates() of the node that this process is on; empty outside of labs."""
    name = surrounding_lab()
    return {} if name is None else lab_rates(name, int(os.environ.get("NEZHA_LAB_NODE", "0")))


def host_name() -> str:
    """What people call this host: a lab's node by its number, as the commands of the lab do."""
    node = os.environ.get("NEZHA_LAB_NODE")
    return f"node {node}" if node is not None and surrounding_lab() else platform.node()
