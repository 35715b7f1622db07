"""status(): everything about a lab that a result should state."""

from __future__ import annotations

from typing import Any, Dict

from . import _aggregator_processes, shaping, _state


def _port(lab: _state.LabState, port: _state.PortState, node: Dict[str, Dict[str, int]],
          switch: Dict[str, Dict[str, int]]) -> Dict[str, Any]:
    near, far = node.get(port.device, {}), switch.get(port.switch_port, {})
    burst = lab.burst_of(port.rate)
    return {
        "rail": port.rail, "kind": lab.rail_kinds[port.rail], "device": port.device,
        "address": port.address, "mtu": port.mtu,
        "path_mtu": port.path_mtu, "rate_bps": port.rate, "burst_bytes": burst,
        "honest_from_bytes": shaping.honest_from(burst),
        "queue_bytes": shaping.queue_bytes(port.rate, lab.queue_ms, burst) if port.rate else 0,
        "cut": port.cut, "blocks": port.blocks, "carrier": bool(near.get("carrier", 0)),
        "tx_bytes": near.get("tx_bytes", 0), "rx_bytes": near.get("rx_bytes", 0),
        "tx_drops": near.get("queue_drops", 0), "rx_drops": far.get("queue_drops", 0),
    }


def status(lab: _state.LabState) -> Dict[str, Any]:
    """A lab as a JSON-ready dict. Rates in bit/s, sizes in bytes, queue in ms."""
    from . import _ports

    namespaces = lab.mode != "loopback"
    switch = _ports.counters(lab.switch) if namespaces else {}
    nodes = []
    for number, node in enumerate(lab.nodes):
        seen = _ports.counters(node.netns) if namespaces else {}
        nodes.append({"node": number, "netns": node.netns, "ctl": node.ctl,
                      "ports": [_port(lab, port, seen, switch) for port in node.ports]})
    return {
        "name": lab.name, "mode": lab.mode, "shaped": namespaces and any(lab.rail_rates),
        "owner": lab.owner, "owner_alive": _state.owner_alive(lab), "rail_rates": lab.rail_rates,
        "rail_kinds": lab.rail_kinds,
        "shaping": lab.shaping, "queue_ms": lab.queue_ms, "congestion_control": lab.congestion_control,
        "own_sysfs": lab.own_sysfs, "nodes": nodes,
        "aggregators": _aggregator_processes.status(lab),
    }
