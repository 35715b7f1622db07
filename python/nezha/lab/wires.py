"""Changes to single ports of a lab that is up, and what its kernel objects say."""

from __future__ import annotations

from typing import Dict

from pyroute2 import IPRoute

from . import kernel, shaping
from .state import LabState, NodeState, PortState


def reshape(lab: LabState, host: NodeState, port: PortState) -> None:
    """Puts port.rate on both ends of a port."""
    for netns, device in ((host.netns, port.device), (lab.switch, port.switch_port)):

        def run(device: str = device) -> None:
            with IPRoute() as ip:
                shaping.shape(ip, device, port.rate, lab.queue_ms, lab.burst)

        kernel.in_netns(netns, run)


def set_carrier(lab: LabState, port: PortState, up: bool) -> None:
    """Raises or lowers the switch end of a port; the node's end follows with its carrier."""

    def run() -> None:
        with IPRoute() as ip:
            index = ip.link_lookup(ifname=port.switch_port)[0]
            ip.link("set", index=index, state="up" if up else "down")

    kernel.in_netns(lab.switch, run)


def counters(netns: str) -> Dict[str, Dict[str, int]]:
    """Counters of every device of a namespace, by device; see shaping.counters."""

    def run() -> Dict[str, Dict[str, int]]:
        with IPRoute() as ip:
            names = [link.get("ifname") for link in ip.get_links()]
            return {name: shaping.counters(ip, name) for name in names}

    return kernel.in_netns(netns, run)
