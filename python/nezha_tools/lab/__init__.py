"""A multi-rail cluster on one machine, out of network namespaces.

    from nezha.lab import Lab
    with Lab(nodes=4, rails=["1gbit", "500mbit"]) as lab:
        lab.exec(0, ["ping", "-c1", "10.1.0.2"])

Needs pyroute2 for anything but a loopback lab, and never the native module.
"""

from ._capability import Capability, capabilities
from ._capacity import Capacity
from ..cli.errors import LabError
from ._lab import Lab
from ._spec import Node, Port, Rail, format_rail, format_rate, parse_rail, parse_rate
from ._state import names
from ._lifetime import tear_down

__all__ = [
    "Capability", "Capacity", "Lab", "LabError", "Node", "Port", "Rail", "capabilities", "format_rail",
    "format_rate", "names", "parse_rail", "parse_rate", "tear_down",
]
