"""Aggregation nodes of a lab: where they are, and who is told of them. Pure.

A rail of kind "agg" has one in the switch (10.<r+1>.0.254 on the rail's bridge), or a tree of them, each
in a namespace of its own on the same switch: root .254, leaf i .<253-i>. Their ports are not shaped,
those of the nodes are.
"""

from __future__ import annotations

import re
import socket
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

from . import _state
from ..cli.errors import LabError
from ._spec import Rail

PORT = 7700
_ROOT_HOST = 254
_TREE = re.compile(r"^([1-9]\d?)x([1-9]\d{0,2})$")


def parse_tree(text: str) -> Tuple[int, int]:
    """(leaves, nodes of each) of "2x3". Raises LabError."""
    match = _TREE.match(text.strip())
    if not match:
        raise LabError(f"tree {text!r}: want LEAVESxNODES, such as 2x3 for two leaves with three nodes "
                       "each")
    return int(match.group(1)), int(match.group(2))


def plan(rails: Sequence[Rail], nodes: Sequence[_state.NodeState], tree: Optional[Tuple[int, int]],
         loopback: bool, netns: Callable[[str], str]) -> List[_state.AggregatorState]:
    """The aggregation nodes of a lab; none without an agg rail. netns: role -> path of a namespace.

    Raises LabError where they cannot be as asked.
    """
    wanted = [number for number, rail in enumerate(rails) if rail.kind == "agg"]
    if not wanted:
        if tree is not None:
            raise LabError("a tree of aggregation nodes needs an agg: rail")
        return []
    if len(wanted) > 1:
        raise LabError(f"{len(wanted)} agg: rails: ranks use one at a time")
    rail = wanted[0]
    port = _free_port() if loopback else PORT
    network = f"127.{rail + 1}.0" if loopback else f"10.{rail + 1}.0"

    prefix = next((port.address.partition("/")[2] for node in nodes for port in node.ports
                   if port.rail == rail), "24")

    def made(index: int, name: str, host: int, parent: str = "",
             serves: Sequence[str] = ()) -> _state.AggregatorState:
        one = _state.AggregatorState(name, rail, "", "", "", f"{network}.{host}/{prefix}", port, parent,
                                    list(serves))
        if not loopback and tree is None:
            one.netns, one.device = netns("sw"), f"br{rail}"
        elif not loopback:
            one.netns, one.device, one.switch_port = netns(f"a{index}"), "eth0", f"pa{index}"
        return one

    if tree is None:
        return [made(0, "root", _ROOT_HOST)]
    leaves, width = tree
    if not leaves * width - width < len(nodes) <= leaves * width:
        raise LabError(f"a tree of {leaves} leaves with {width} nodes each does not fit {len(nodes)} "
                       "nodes")
    if _ROOT_HOST - leaves <= len(nodes):
        raise LabError(f"{len(nodes)} nodes and {leaves} leaves are more than a rail's addresses")
    found = [made(0, "root", _ROOT_HOST)]
    for leaf in range(leaves):
        serves = [_address(node, rail) for node in nodes[leaf * width:(leaf + 1) * width]]
        found.append(made(leaf + 1, f"leaf{leaf}", _ROOT_HOST - 1 - leaf, "root",
                          [f"{address}/32" for address in serves if address]))
    return found


def _address(node: _state.NodeState, rail: int) -> str:
    return next((port.address.partition("/")[0] for port in node.ports if port.rail == rail), "")


def _free_port() -> int:
    # Labs on the loopback share its addresses.
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def node_env(lab: _state.LabState, node: int) -> Dict[str, str]:
    """What tells a process on a node about the aggregation nodes; nothing where it has no way to them."""
    if not lab.aggregators:
        return {}
    manager = lab.aggregators[0]
    port = next((port for port in lab.nodes[node].ports if port.rail == manager.rail), None)
    if port is None:
        return {}
    device = "" if lab.mode == "loopback" else port.device
    return {"NEZHA_AGGREGATOR": manager.endpoint, "NEZHA_AGGREGATOR_DEVICE": device}


def topology(lab: _state.LabState) -> Dict[str, Any]:
    """The topology file of a tree."""
    nodes = []
    for each in lab.aggregators:
        node: Dict[str, Any] = {"name": each.name, "address": each.endpoint}
        if each.parent:
            node.update(parent=each.parent, serves=each.serves)
        nodes.append(node)
    return {"nodes": nodes}
