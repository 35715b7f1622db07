"""Builds the wires of a lab through netlink: switch, bridges, ports, addresses, sysctls.

Owner: Lab.up(). Nothing here rolls back: the caller tears the whole lab down on any error.
"""

from __future__ import annotations

import contextlib
import os
from typing import Any

from pyroute2 import IPRoute

from . import _kernel, shaping
from ._spec import CTL_DEVICE
from ._state import AggregatorState, LabState, NodeState, PortState

_CTL_BRIDGE = "brctl"
_CTL_MTU = 1500
_NODE_SYSCTLS = (
    # Answer ARP only on the rail that owns the address, and ask with that rail's address.
    ("net.ipv4.conf.all.arp_ignore", "1"),
    ("net.ipv4.conf.all.arp_announce", "2"),
    # Two ports in one subnet: replies may come back on the other one.
    ("net.ipv4.conf.all.rp_filter", "0"),
    ("net.ipv4.conf.default.rp_filter", "0"),
    # A run must not start from the rates that the run before it has seen.
    ("net.ipv4.tcp_no_metrics_save", "1"),
)


def bridge_of(rail: int) -> str:
    """Name of a rail's bridge in the switch namespace."""
    return f"br{rail}"


def _quiet_ipv6() -> None:
    # Addresses on a lab's links are IPv4; neighbour discovery would only add noise to counters.
    if os.path.exists("/proc/sys/net/ipv6"):
        _kernel.write_sysctl("net.ipv6.conf.default.disable_ipv6", "1")


def _add_bridge(ip: Any, name: str, mtu: int) -> None:
    ip.link("add", ifname=name, kind="bridge", br_stp_state=0, br_mcast_snooping=0)
    ip.link("set", index=ip.link_lookup(ifname=name)[0], mtu=mtu, state="up")


def build_switch(lab: LabState) -> None:
    """Bridges of every rail and of the control network."""

    def run() -> None:
        _quiet_ipv6()
        _keep_firewall_out_of_bridges()
        with IPRoute() as ip:
            ip.link("set", index=1, state="up")
            _add_bridge(ip, _CTL_BRIDGE, _CTL_MTU)
            for rail in range(len(lab.rail_rates)):
                mtus = [p.path_mtu for n in lab.nodes for p in n.ports if p.rail == rail]
                _add_bridge(ip, bridge_of(rail), max(mtus, default=_CTL_MTU))

    _kernel.in_netns(lab.switch, run)


def _add_pair(ip: Any, switch_fd: int, device: str, switch_port: str, mtu: int) -> int:
    ip.link("add", ifname=device, kind="veth", mtu=mtu,
            peer={"ifname": switch_port, "mtu": mtu, "net_ns_fd": switch_fd})
    return ip.link_lookup(ifname=device)[0]


def _dress_port(ip: Any, index: int, port: PortState, kind: str) -> None:
    attributes = {"mtu": port.mtu}
    if port.rate:
        attributes["gso_max_size"] = shaping.way(port.rate, kind).segment
    if port.path_mtu < port.mtu:
        # A bridge lets oversized frames pass inside GSO super-frames: send single frames here.
        attributes["gso_max_segs"] = 1
    ip.link("set", index=index, **attributes)
    ip.link("set", index=index, state="up")
    address, prefix = port.address.split("/")
    ip.addr("add", index=index, address=address, prefixlen=int(prefix))


def build_node(lab: LabState, node: NodeState, number: int) -> None:
    """One node's devices, addresses, sysctls and egress rates."""
    switch_fd = os.open(lab.switch, os.O_RDONLY | os.O_CLOEXEC)

    def run() -> None:
        _quiet_ipv6()
        for name, value in _NODE_SYSCTLS:
            _kernel.write_sysctl(name, value)
        with IPRoute() as ip:
            ip.link("set", index=1, state="up")
            ctl = _add_pair(ip, switch_fd, CTL_DEVICE, f"p{number}ctl", _CTL_MTU)
            ip.link("set", index=ctl, state="up")
            ip.addr("add", index=ctl, address=node.ctl, prefixlen=24)
            for port in node.ports:
                index = _add_pair(ip, switch_fd, port.device, port.switch_port, port.mtu)
                _dress_port(ip, index, port, lab.shaping)
                shaping.shape(ip, port.device, port.rate, lab.queue_ms, lab.burst_of(port.rate))

    try:
        _kernel.in_netns(node.netns, run)
    finally:
        os.close(switch_fd)


def plug_ports(lab: LabState) -> None:
    """Puts every port's switch end into its bridge, with the rate towards the node."""

    def run() -> None:
        with IPRoute() as ip:
            index = {link.get("ifname"): link["index"] for link in ip.get_links()}
            for number, node in enumerate(lab.nodes):
                ip.link("set", index=index[f"p{number}ctl"], master=index[_CTL_BRIDGE])
                ip.link("set", index=index[f"p{number}ctl"], state="up")
                for port in node.ports:
                    end = index[port.switch_port]
                    ip.link("set", index=end, master=index[bridge_of(port.rail)])
                    ip.link("set", index=end, mtu=port.path_mtu, state="up")
                    shaping.shape(ip, port.switch_port, port.rate, lab.queue_ms,
                                  lab.burst_of(port.rate))

    _kernel.in_netns(lab.switch, run)


def build_aggregator(lab: LabState, each: AggregatorState) -> None:
    """An aggregation node's address: on the rail's bridge, or behind a port of the switch. Its port has
    no rate. After plug_ports()."""
    prefix = int(each.address.partition("/")[2])
    address = each.address.partition("/")[0]
    mtus = [p.path_mtu for n in lab.nodes for p in n.ports if p.rail == each.rail]
    mtu = max(mtus, default=_CTL_MTU)
    switch_fd = os.open(lab.switch, os.O_RDONLY | os.O_CLOEXEC)

    def run() -> None:
        with IPRoute() as ip:
            if each.switch_port:
                _quiet_ipv6()
                ip.link("set", index=1, state="up")
                _add_pair(ip, switch_fd, each.device, each.switch_port, mtu)
            index = ip.link_lookup(ifname=each.device)[0]
            # What it sends has to fit into the buckets of the nodes' ports.
            rates = [p.rate for n in lab.nodes for p in n.ports if p.rail == each.rail and p.rate]
            segment = min((shaping.way(rate, lab.shaping).segment for rate in rates), default=65536)
            ip.link("set", index=index, gso_max_size=segment)
            ip.link("set", index=index, state="up")
            ip.addr("add", index=index, address=address, prefixlen=prefix)

    def plug() -> None:
        with IPRoute() as ip:
            index = {link.get("ifname"): link["index"] for link in ip.get_links()}
            end = index[each.switch_port]
            ip.link("set", index=end, master=index[bridge_of(each.rail)])
            ip.link("set", index=end, mtu=mtu, state="up")

    try:
        _kernel.in_netns(each.netns, run)
        if each.switch_port:
            _kernel.in_netns(lab.switch, plug)
    finally:
        os.close(switch_fd)


def set_congestion_control(lab: LabState, name: str) -> None:
    """Makes `name` the congestion control of new sockets in every node and aggregation node.

    Root first lets the host allow it (a namespace may only use what the host allows).
    Raises OSError when the kernel lacks it or the host does not allow it.
    """
    with contextlib.suppress(PermissionError):  # root of a container or a user namespace
        allowed = _kernel.read_sysctl("net.ipv4.tcp_allowed_congestion_control").split()
        if name not in allowed:
            _kernel.write_sysctl("net.ipv4.tcp_allowed_congestion_control",
                                " ".join(allowed + [name]))
    for netns in [node.netns for node in lab.nodes] + [each.netns for each in lab.aggregators]:
        _kernel.in_netns(netns, lambda: _kernel.write_sysctl(
            "net.ipv4.tcp_congestion_control", name))


def _keep_firewall_out_of_bridges() -> None:
    """A real switch does not run the host's packet filter on every frame, and it costs processor time."""
    for name in ("iptables", "ip6tables", "arptables"):
        with contextlib.suppress(OSError):  # no bridge filter in this kernel: nothing to keep out
            _kernel.write_sysctl(f"net.bridge.bridge-nf-call-{name}", "0")
