"""Packets held back on their way, where the kernel can: netem behind the token bucket of a device.

All functions run in the namespace of the device, on an open pyroute2 IPRoute. shaping.shape() ends
a delay.
"""

from __future__ import annotations

import errno
from typing import Any

from pyroute2.netlink.exceptions import NetlinkError
from pyroute2.netlink.rtnl.tcmsg.common import tick_in_usec

_ROOT = 0xFFFFFFFF
_LOOPBACK = 1
_PACKETS_MAX = 100_000  # 50 ms of more than 10 gbit


def delay(ip: Any, device: str, ms: int) -> None:
    """Holds back what one device sends. Raises NetlinkError without netem."""
    index = ip.link_lookup(ifname=device)[0]
    buckets = [q["handle"] for q in ip.get_qdiscs(index=index) if q.get_attr("TCA_KIND") == "tbf"]
    where = {"parent": buckets[0] | 1} if buckets else {}
    ip.tc("replace", "netem", index, delay=1000 * ms, limit=_PACKETS_MAX, **where)


def milliseconds(qdisc: Any) -> int:
    """The delay of a netem that the kernel has told of."""
    return round(qdisc.get_attr("TCA_OPTIONS")["delay"] / tick_in_usec / 1000)


def possible(ip: Any) -> bool:
    """Whether the kernel has netem, tried on the loopback device of this namespace."""
    try:
        ip.tc("add", "netem", _LOOPBACK, delay=1000)
    except NetlinkError as error:
        if error.code not in (errno.ENOENT, errno.EOPNOTSUPP):
            raise
        return False
    ip.tc("del", index=_LOOPBACK, parent=_ROOT)
    return True
