"""What a lab is asked to be: rates, rails, ports and nodes, before anything exists.

Pure: nothing here touches the kernel. Rates are integers in bits per second, 0 = unshaped.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field
from typing import List, Optional, Sequence, Union

from ..cli.errors import LabError

RateLike = Union[str, int, float]

# How a rail's bytes travel: "tcp"; "ofi", through libfabric on the same wires; "agg", by TCP, with
# aggregation nodes at the switch; "shm", libfabric's shared memory between processes of one host, which
# has no wires.
KINDS = ("tcp", "ofi", "agg", "shm")
_UNITS = {"bit": 1, "kbit": 10**3, "mbit": 10**6, "gbit": 10**9}
_RATE = re.compile(r"^(\d+(?:\.\d+)?)\s*(k|m|g)?(?:bit)?(?:/s|ps)?$", re.IGNORECASE)
# tbf carries its rate as 32 bits of bytes per second.
MAX_RATE_BPS = 34 * 10**9
MIN_RATE_BPS = 64 * 10**3

MAX_NODES = 250
MAX_RAILS = 64
MAX_RANKS_PER_NODE = 64
CTL_DEVICE = "ctl"


def parse_rate(rate: RateLike) -> int:
    """Bits per second of a rate such as ``"1gbit"``, ``"500mbit"``, ``1e9``, ``"none"``.

    Raises LabError when the text is no rate or lies outside 64 kbit/s .. 34 Gbit/s.
    """
    if isinstance(rate, str):
        text = rate.strip().lower()
        if text in ("none", "0", "unshaped"):
            return 0
        match = _RATE.match(text)
        if not match:
            raise LabError(f"rate {rate!r}: want e.g. 1gbit, 500mbit, 100kbit or none")
        bps = float(match.group(1)) * _UNITS[(match.group(2) or "") + "bit"]
    else:
        bps = float(rate) if math.isfinite(rate) else -1.0
    value = int(round(bps))
    if value == 0:
        return 0
    if not MIN_RATE_BPS <= value <= MAX_RATE_BPS:
        raise LabError(f"rate {rate!r}: want 64kbit to 34gbit, or none for unshaped")
    return value


def format_rate(bps: int) -> str:
    """Shortest exact text of a rate: ``1gbit``, ``500mbit``, ``none``."""
    if bps == 0:
        return "none"
    for unit in ("gbit", "mbit", "kbit"):
        if bps % _UNITS[unit] == 0:
            return f"{bps // _UNITS[unit]}{unit}"
    return f"{bps}bit"


@dataclass
class Rail:
    """One network: its rate per port, the hosts' MTU, the MTU of the path between them, and its kind
    (one of KINDS), which the ranks' NEZHA_RAILS ask for.

    path_mtu below mtu builds the classic fault: hosts believe in jumbo frames, the switch drops
    them without a word.
    """

    rate: RateLike = "none"
    mtu: Optional[int] = None
    path_mtu: Optional[int] = None
    kind: str = "tcp"


def parse_rail(text: RateLike) -> Rail:
    """A rail such as ``"1gbit"``, ``"tcp:1gbit"``, ``"ofi:500mbit"``, ``"agg:1gbit"``, ``"ofi:shm"``.

    Raises LabError when the text is none of these.
    """
    kind, colon, rate = text.strip().partition(":") if isinstance(text, str) else ("tcp", "", text)
    if not colon:
        kind, rate = "tcp", text
    if kind not in ("tcp", "ofi", "agg"):
        raise LabError(f"rail {text!r}: want a rate, and tcp:, ofi: or agg: before it, or ofi:shm")
    if (kind, rate) == ("ofi", "shm"):
        return Rail(kind="shm")
    parse_rate(rate)
    return Rail(rate, kind=kind)


def format_rail(kind: str, bps: int) -> str:
    """What parse_rail() read: ``1gbit``, ``ofi:1gbit``, ``agg:1gbit``, ``ofi:shm``."""
    return "ofi:shm" if kind == "shm" else ("" if kind == "tcp" else f"{kind}:") + format_rate(bps)


@dataclass
class Port:
    """One device of a node. Unset fields take the rail's value or the lab's addressing plan."""

    rail: int
    device: Optional[str] = None
    address: Optional[str] = None
    mtu: Optional[int] = None
    rate: Optional[RateLike] = None


@dataclass
class Node:
    """One host. Two ports may sit on the same rail: two devices in one subnet."""

    ports: List[Port] = field(default_factory=list)


def normal_rails(rails: Sequence[Union[Rail, RateLike]]) -> List[Rail]:
    """Rails out of texts, rates or Rail objects. Raises LabError on a bad rate, kind or count."""
    result = [r if isinstance(r, Rail) else parse_rail(r) for r in rails]
    if not 1 <= len(result) <= MAX_RAILS:
        raise LabError(f"{len(result)} rails: want 1 to {MAX_RAILS}")
    for rail in result:
        if rail.kind not in KINDS:
            raise LabError(f"rail of kind {rail.kind!r}: want one of {', '.join(KINDS)}")
        parse_rate(rail.rate)
    if any(rail.kind == "shm" for rail in result) and any(parse_rate(rail.rate) for rail in result):
        raise LabError("an ofi:shm rail is the memory of one host, where nothing is shaped: give the "
                       "rails beside it the rate none")
    return result


def normal_nodes(nodes: Union[int, Sequence[Node]], rail_count: int) -> List[Node]:
    """Nodes out of a number or a list. Raises LabError on a bad count or rail index."""
    if isinstance(nodes, int):
        result = [Node([Port(r) for r in range(rail_count)]) for _ in range(nodes)]
    else:
        result = list(nodes)
    if not 1 <= len(result) <= MAX_NODES:
        raise LabError(f"{len(result)} nodes: want 1 to {MAX_NODES}")
    for index, node in enumerate(result):
        for port in node.ports:
            if not 0 <= port.rail < rail_count:
                raise LabError(f"node {index}: no rail {port.rail}, the lab has {rail_count}")
    return result
