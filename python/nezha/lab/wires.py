"""Changes to single ports of a lab that is up, and what its kernel objects say."""

from __future__ import annotations

from typing import Dict, Optional

from pyroute2 import IPRoute

from . import delays, kernel, shaping
from .state import LabState, NodeState, PortState


def reshape(lab: LabState, host: NodeState, port: PortState) -> None:
    """Puts port.rate on both ends of a port."""
    for netns, device in ((host.netns, port.device), (lab.switch, port.switch_port)):

        def run(device: str = device) -> None:
            with IPRoute() as ip:
                shaping.shape(ip, device, port.rate, lab.queue_ms, lab.burst_of(port.rate))

        kernel.in_netns(netns, run)


def shape_all(lab: LabState) -> None:
    """Segments and buckets of all ports as lab.shaping wants them."""
    for host in lab.nodes:

        def run(host: NodeState = host) -> None:
            with IPRoute() as ip:
                for port in host.ports:
                    if port.rate:
                        segment = shaping.way(port.rate, lab.shaping).segment
                        shaping.limit_segments(ip, port.device, segment)

        kernel.in_netns(host.netns, run)
        for port in host.ports:
            reshape(lab, host, port)


def delay(lab: LabState, host: NodeState, port: PortState, milliseconds: int) -> None:
    """Delays what passes a port, each way, until reshape()."""
    for netns, device in ((host.netns, port.device), (lab.switch, port.switch_port)):

        def run(device: str = device) -> None:
            with IPRoute() as ip:
                delays.delay(ip, device, milliseconds)

        kernel.in_netns(netns, run)


def can_delay(netns: str) -> bool:
    """Whether this kernel has netem; tried in the namespace at netns."""

    def run() -> bool:
        with IPRoute() as ip:
            return delays.possible(ip)

    return kernel.in_netns(netns, run)


def set_carrier(lab: LabState, port: PortState, up: bool) -> None:
    """Raises or lowers the switch end of a port; the node's end follows with its carrier."""

    def run() -> None:
        with IPRoute() as ip:
            index = ip.link_lookup(ifname=port.switch_port)[0]
            ip.link("set", index=index, state="up" if up else "down")

    kernel.in_netns(lab.switch, run)


def counters(netns: str, device: Optional[str] = None) -> Dict[str, Dict[str, int]]:
    """Counters of one or every device of a namespace, by device; see shaping.counters."""

    def run() -> Dict[str, Dict[str, int]]:
        with IPRoute() as ip:
            names = [device] if device else [link.get("ifname") for link in ip.get_links()]
            return {name: shaping.counters(ip, name) for name in names}

    return kernel.in_netns(netns, run)
