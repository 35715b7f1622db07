"""Changes to single ports of a lab that is up, and what the kernel says about them.

facts() shows whether a fault that was asked for is there."""

from __future__ import annotations

from typing import Dict, Optional

from pyroute2 import IPRoute

from . import _faults, _kernel, shaping, _sockets
from ._state import LabState, NodeState, PortState


def reshape(lab: LabState, host: NodeState, port: PortState) -> None:
    """Puts port.rate on both ends of a port."""
    for netns, device in ((host.netns, port.device), (lab.switch, port.switch_port)):

        def run(device: str = device) -> None:
            with IPRoute() as ip:
                shaping.shape(ip, device, port.rate, lab.queue_ms, lab.burst_of(port.rate))

        _kernel.in_netns(netns, run)


def shape_all(lab: LabState) -> None:
    """Segments and buckets of all ports as lab.shaping wants them."""
    for host in lab.nodes:

        def run(host: NodeState = host) -> None:
            with IPRoute() as ip:
                for port in host.ports:
                    if port.rate:
                        segment = shaping.way(port.rate, lab.shaping).segment
                        shaping.limit_segments(ip, port.device, segment)

        _kernel.in_netns(host.netns, run)
        for port in host.ports:
            reshape(lab, host, port)


def delay(lab: LabState, host: NodeState, port: PortState, milliseconds: int) -> None:
    """Delays what passes a port, each way, until reshape()."""
    for netns, device in ((host.netns, port.device), (lab.switch, port.switch_port)):

        def run(device: str = device) -> None:
            with IPRoute() as ip:
                _faults.delay(ip, device, milliseconds)

        _kernel.in_netns(netns, run)


def can_delay(netns: str) -> bool:
    """Whether this kernel has netem; tried in the namespace at netns."""

    def run() -> bool:
        with IPRoute() as ip:
            return _faults.can_delay(ip)

    return _kernel.in_netns(netns, run)


def set_carrier(lab: LabState, port: PortState, up: bool) -> None:
    """Raises or lowers the switch end of a port; the node's end follows with its carrier."""

    def run() -> None:
        with IPRoute() as ip:
            index = ip.link_lookup(ifname=port.switch_port)[0]
            ip.link("set", index=index, state="up" if up else "down")

    _kernel.in_netns(lab.switch, run)


def counters(netns: str, device: Optional[str] = None) -> Dict[str, Dict[str, int]]:
    """Counters of one or every device of a namespace, by device; see shaping.counters."""

    def run() -> Dict[str, Dict[str, int]]:
        with IPRoute() as ip:
            names = [device] if device else [link.get("ifname") for link in ip.get_links()]
            return {name: shaping.counters(ip, name) for name in names}

    return _kernel.in_netns(netns, run)


def facts(lab: LabState, host: NodeState, port: PortState) -> Dict[str, int]:
    """Carrier and how often it was lost; rates both ways in bit/s; counters since the lab was made.

    dropped: packets, by the silent cuts and blocks in force. queue_drops: packets, full queues of
    both ends. bytes: both ways. resets: TCP connections of the whole node that a reset ended.
    """
    near = counters(host.netns, port.device)[port.device]
    far = counters(lab.switch, port.switch_port)[port.switch_port]
    return {
        "carrier": near["carrier"], "carrier_losses": near["carrier_losses"],
        "delay_ms": min(near["delay_ms"], far["delay_ms"]),
        "rate_out_bps": near["rate"], "rate_in_bps": far["rate"],
        "dropped": _faults.dropped(lab, port),
        "queue_drops": near["queue_drops"] + far["queue_drops"],
        "bytes": near["rx_bytes"] + near["tx_bytes"],
        "resets": _kernel.in_netns(host.netns, _sockets.established_resets),
    }
