"""Makes what a plan describes, where the caller may: as root, or in a user namespace's holder."""

from __future__ import annotations

import sys
from typing import Optional

from . import kernel, process
from .errors import LabError
from .state import LabState


def network(plan: LabState, congestion_control: Optional[str]) -> None:
    """Builds all of plan and fills in what only the kernel knows. Does not roll back.

    Raises LabError, OSError or pyroute2's errors.
    """
    from . import links  # pyroute2 takes a quarter of a second to import

    for path in plan.namespaces():
        kernel.create_netns(path)
    links.build_switch(plan)
    for number, node in enumerate(plan.nodes):
        links.build_node(plan, node, number)
    links.plug_ports(plan)
    for each in plan.aggregators:
        links.build_aggregator(plan, each)
    if congestion_control is not None:
        _settle(plan, congestion_control)
    plan.congestion_control = kernel.in_netns(plan.nodes[0].netns, lambda: kernel.read_sysctl(
        "net.ipv4.tcp_congestion_control"))
    plan.own_sysfs = process.sysfs_allowed(plan.nodes[0].netns)


def _settle(plan: LabState, congestion_control: str) -> None:
    """Sets the wanted algorithm; says so where only the host's root could allow it."""
    from . import links

    try:
        links.set_congestion_control(plan, congestion_control)
    except PermissionError:
        print(f"nezha lab: congestion control {congestion_control!r} is not allowed without root; "
              "the host's default stays", file=sys.stderr)
    except OSError as error:
        raise LabError(f"congestion control {congestion_control!r}: {error}. See "
                       "net.ipv4.tcp_available_congestion_control") from error
