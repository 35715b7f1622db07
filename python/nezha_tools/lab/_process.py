"""Environment and entry of a process that runs on a node."""

from __future__ import annotations

import contextlib
import os
from typing import Callable, Dict, List, Optional

from . import _aggregator_key, _aggregators, _kernel, _state, _userns
from ._state import LabState, PortState


def rail_filter(lab: LabState, node: int, only: Optional[int] = None) -> str:
    """What NEZHA_RAILS must be on a node for its rails, or for rail `only` of them."""
    ports = [port for port in lab.nodes[node].ports if only in (None, port.rail)]

    def named(port: PortState) -> str:
        return port.device if lab.mode != "loopback" else port.address

    def of_kind(*kinds: str) -> List[PortState]:
        return [port for port in ports if lab.rail_kinds[port.rail] in kinds]

    # '=' at the start holds for every name of a device, so these come first. (To an aggregation node goes
    # a device that is a rail among ranks, too.)
    exact = "=" if lab.mode != "loopback" and of_kind("tcp", "agg") else ""
    entries = ([named(port) for port in of_kind("tcp", "agg")]
               + ["ofi:" + named(port).partition("/")[0] for port in of_kind("ofi")]
               + ["ofi:shm" for _ in of_kind("shm")])
    return exact + ",".join(entries)


def node_env(lab: LabState, node: int) -> Dict[str, str]:
    """What every process on a node gets on top of its caller's environment."""
    env = {"NEZHA_LAB": lab.name, "NEZHA_LAB_NODE": str(node)}
    if to_nodes := _aggregators.node_env(lab, node):
        env.update(to_nodes, **_aggregator_key.environment(lab))
    if lab.mode == "loopback":
        env["NEZHA_RAILS"] = rail_filter(lab, node)
        # Nodes stand for hosts, whose ranks share memory only by a rail that is the memory of one host.
        if "shm" in lab.rail_kinds:
            env["NEZHA_SHM"] = "off"
        else:
            env["NEZHA_HOST_ID"] = f"{lab.name} node {node}"
    return env


def rank_env(lab: LabState, rank: int) -> Dict[str, str]:
    """node_env() and what makes the process rank `rank` of a world with the lab's ranks on every node,
    those of node 0 first."""
    node, local_rank = divmod(rank, lab.ranks_per_node)
    return {
        "NEZHA_RAILS": rail_filter(lab, node),
        **node_env(lab, node),
        "RANK": str(rank),
        "WORLD_SIZE": str(len(lab.nodes) * lab.ranks_per_node),
        "LOCAL_RANK": str(local_rank),
        "LOCAL_WORLD_SIZE": str(lab.ranks_per_node),
        "MASTER_ADDR": lab.nodes[0].ctl,
        "MASTER_PORT": str(lab.master_port),
        "NEZHA_SECRET_FILE": _state.key_path(lab.name),
    }


def entry(netns: str, holder: int, own_sysfs: bool) -> Callable[[], None]:
    """A preexec_fn that puts the child into the namespace at netns, with its own /sys.

    holder: the process whose user namespace sees that path; 0 = this one does.
    """

    def enter() -> None:
        if holder:
            _userns.join(holder)
        fd = os.open(netns, os.O_RDONLY | os.O_CLOEXEC)
        _kernel.setns(fd, _kernel.CLONE_NEWNET)
        if own_sysfs:
            _kernel.mount_own_sysfs()

    return enter


def sysfs_allowed(netns: str) -> bool:
    """Whether a child in this namespace may mount a /sys of its own (some containers forbid)."""
    child = os.fork()
    if child == 0:
        code = 1
        with contextlib.suppress(BaseException):
            entry(netns, holder=0, own_sysfs=True)()
            code = 0
        os._exit(code)
    return os.waitpid(child, 0)[1] == 0
