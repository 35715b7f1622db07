"""Makes what a plan describes, where the caller may: as root, or in a user namespace's holder."""

from __future__ import annotations

import sys
from typing import Optional

from . import _kernel, _process
from ..cli.errors import LabError
from ._state import LabState


def network(plan: LabState, congestion_control: Optional[str]) -> None:
    """Builds all of plan and fills in what only the kernel knows. Does not roll back.

    Raises LabError, OSError or pyroute2's errors.
    """
    from . import _topology  # pyroute2 takes a quarter of a second to import

    for path in plan.namespaces():
        _kernel.create_netns(path)
    _topology.build_switch(plan)
    for number, node in enumerate(plan.nodes):
        _topology.build_node(plan, node, number)
    _topology.plug_ports(plan)
    for each in plan.aggregators:
        _topology.build_aggregator(plan, each)
    if congestion_control is not None:
        _settle(plan, congestion_control)
    plan.congestion_control = _kernel.in_netns(plan.nodes[0].netns, lambda: _kernel.read_sysctl(
        "net.ipv4.tcp_congestion_control"))
    plan.own_sysfs = _process.sysfs_allowed(plan.nodes[0].netns)


def _settle(plan: LabState, congestion_control: str) -> None:
    """Sets the wanted algorithm; says so where only the host's root could allow it."""
    from . import _topology

    try:
        _topology.set_congestion_control(plan, congestion_control)
    except PermissionError:
        print(f"nezha lab: congestion control {congestion_control!r} is not allowed without root; "
              "the host's default stays", file=sys.stderr)
    except OSError as error:
        raise LabError(f"congestion control {congestion_control!r}: {error}. See "
                       "net.ipv4.tcp_available_congestion_control") from error
