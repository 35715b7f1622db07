"""Turns a specification into names and addresses: a LabState of things that do not exist yet.

rail r of node i = 10.<r+1>.0.<i+1>/24 on eth<r>; control network = 10.255.0.<i+1>/24 on ctl; the
k-th further port of a node on one rail gets 10.<r+1>.<k>.<i+1> with the whole 10.<r+1>.0.0/16 as
its subnet's prefix on every port of that rail. A loopback lab has 127.<r+1>.0.<i+1> and no ctl; its
rails of shared memory have no address.
"""

from __future__ import annotations

import os
import socket
from typing import List, Optional, Sequence

from . import _state
from ..cli.errors import LabError
from ._spec import CTL_DEVICE, Node, Port, Rail, parse_rate

NETNS_DIR = "/run/netns"
_MASTER_PORT = 29400
_MIN_MTU = 576
_MAX_MTU = 65535


def netns_path(lab: str, role: str) -> str:
    """Where the namespace `role` (sw, n0, n1, ...) of a lab is mounted."""
    if os.access("/run", os.W_OK):
        return os.path.join(NETNS_DIR, f"nezha-{lab}-{role}")  # also visible to `ip netns`
    return os.path.join(_state.directory(), f"{lab}.netns", role)


def _mtu(value: Optional[int], fallback: Optional[int]) -> int:
    mtu = value if value is not None else (fallback if fallback is not None else 1500)
    if not _MIN_MTU <= mtu <= _MAX_MTU:
        raise LabError(f"mtu {mtu}: want {_MIN_MTU} to {_MAX_MTU}")
    return mtu


def _port(node: int, order: int, port: Port, twins: int, prefix: int, rail: Rail,
          lab_mtu: int) -> _state.PortState:
    mtu = _mtu(port.mtu, rail.mtu or lab_mtu)
    rate = parse_rate(port.rate if port.rate is not None else rail.rate)
    device = port.device or f"eth{order}"
    if not 0 < len(device) <= 15 or device in (CTL_DEVICE, "lo") or "/" in device:
        raise LabError(f"node {node}: device name {device!r} is taken or too long")
    return _state.PortState(
        rail=port.rail,
        device=device,
        switch_port=f"p{node}k{order}",
        address=port.address or f"10.{port.rail + 1}.{twins}.{node + 1}/{prefix}",
        mtu=mtu,
        path_mtu=_mtu(rail.path_mtu, rail.mtu or lab_mtu) if rail.path_mtu else mtu,
        rate=rate,
        home_rate=rate,
    )


def nodes(lab: str, specs: Sequence[Node], rails: Sequence[Rail],
          lab_mtu: int) -> List[_state.NodeState]:
    """The nodes with every name and address filled in. Raises LabError on bad names or MTUs."""
    crowded = {p.rail for n in specs for k, p in enumerate(n.ports)
               if any(q.rail == p.rail for q in n.ports[:k])}
    result = []
    for index, node in enumerate(specs):
        ports: List[_state.PortState] = []
        for order, port in enumerate(node.ports):
            twins = sum(1 for p in ports if p.rail == port.rail)
            prefix = 16 if port.rail in crowded else 24
            made = _port(index, order, port, twins, prefix, rails[port.rail], lab_mtu)
            if any(made.device == p.device for p in ports):
                raise LabError(f"node {index}: device {made.device!r} is named twice")
            ports.append(made)
        result.append(_state.NodeState(netns_path(lab, f"n{index}"), f"10.255.0.{index + 1}", ports))
    return result


def loopback_nodes(count: int, rails: Sequence[Rail]) -> List[_state.NodeState]:
    """Nodes that share this host and differ by address only."""

    def port(node: int, number: int, kind: str) -> _state.PortState:
        shared = kind == "shm"
        return _state.PortState(number, "shm" if shared else "lo", "",
                               "" if shared else f"127.{number + 1}.0.{node + 1}/32", 65536, 65536, 0, 0)

    return [_state.NodeState("", "127.0.0.1", [port(i, r, rail.kind) for r, rail in enumerate(rails)])
            for i in range(count)]


def master_port(mode: str) -> int:
    """A port for MASTER_PORT: fixed in a lab of its own, a free one on the shared loopback."""
    if mode != "loopback":
        return _MASTER_PORT
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]
