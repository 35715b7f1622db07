"""What the kernel itself says about one port: whether a fault that was asked for is really there."""

from __future__ import annotations

from typing import Dict

from . import filters, kernel, sockets
from .state import LabState, NodeState, PortState


def facts(lab: LabState, host: NodeState, port: PortState) -> Dict[str, int]:
    """Carrier and how often it was lost; rates both ways in bit/s; counters since the lab was made.

    dropped: packets, by the silent cuts and blocks in force. queue_drops: packets, full queues of
    both ends. bytes: both ways. resets: TCP connections of the whole node that a reset ended.
    """
    from . import wires

    near = wires.counters(host.netns, port.device)[port.device]
    far = wires.counters(lab.switch, port.switch_port)[port.switch_port]
    return {
        "carrier": near["carrier"], "carrier_losses": near["carrier_losses"],
        "delay_ms": min(near["delay_ms"], far["delay_ms"]),
        "rate_out_bps": near["rate"], "rate_in_bps": far["rate"],
        "dropped": filters.dropped(lab, port),
        "queue_drops": near["queue_drops"] + far["queue_drops"],
        "bytes": near["rx_bytes"] + near["tx_bytes"],
        "resets": kernel.in_netns(host.netns, sockets.established_resets),
    }
