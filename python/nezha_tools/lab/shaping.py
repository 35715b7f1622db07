"""Wires with a rate: one token bucket on each end of each port, and the counters that prove it.

There are two ways to shape. "exact": segments of 16 KiB and the smallest bucket that reaches the rate,
so that no transfer from 256 KiB up beats the wire by more than 10 %. "bulk": segments of 64 KiB, for less
than half of the processor time, and a bucket that flatters transfers of less than 0.8 MB. Ports of at
most 250 Mbit/s cost little either way and are always exact.

Rates are bits per second, sizes bytes. All functions run in the namespace of the device they
are given (see kernel.in_netns) on an open pyroute2 IPRoute.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Dict, Optional

_ROOT = 0xFFFFFFFF

EXACT, BULK = "exact", "bulk"
KINDS = (BULK, EXACT)


@dataclass(frozen=True)
class Way:
    """Bytes of the largest segment that the stack may hand to a device (IFLA_GSO_MAX_SIZE), and of that
    segment with the headers of its frames; seconds of the rate that may gather as tokens while the
    kernel's timer is late.

    Each segment costs two timers and two bridge crossings, so bigger is cheaper; but the bucket must
    hold one, or the kernel cuts it into single frames, which costs several times the CPU.
    """

    segment: int
    on_wire: int
    slack_s: float


# At 1 gbit 24 050 bytes: 256 KiB after a pause beat the wire by 9.6 % at most (see HONEST_FACTOR).
_EXACT = Way(16384, 17300, 54e-6)
# At 1 gbit 72 000 bytes: a longer segment keeps the wire busy for longer than the timer is late.
_BULK = Way(65536, 69000, 24e-6)
_CHEAP_RATE = 250 * 10**6
# The bucket's content goes at once, the rest at the rate: a transfer of n payload bytes looks
# n / (n - bucket) as fast as the wire, which is 1.1 for a payload of eleven buckets.
HONEST_FACTOR = 11
_PAYLOAD_SHARE = 1448 / 1514


def way(rate: int, kind: str) -> Way:
    """How a port of this rate is shaped in a lab of this kind."""
    return _BULK if kind == BULK and rate > _CHEAP_RATE else _EXACT


def default_burst(rate: int, kind: str) -> int:
    """Bucket depth for a rate: the smallest that still reaches it; 0 for a port without a rate."""
    if not rate:
        return 0
    chosen = way(rate, kind)
    return chosen.on_wire + int(rate / 8 * chosen.slack_s)


def bucket(rate: int, kind: str, asked: int) -> int:
    """Bytes of the bucket of a port: those that were asked for, 0 for the default; 0 without a rate."""
    return asked if rate and asked else default_burst(rate, kind)


def honest_from(burst: int) -> int:
    """Smallest transfer that can never beat the wire by more than 10 %."""
    return int(HONEST_FACTOR * burst * _PAYLOAD_SHARE)


def queue_bytes(rate: int, queue_ms: float, burst: int) -> int:
    """Bytes that may wait at a port before it drops."""
    return int(rate / 8 * queue_ms / 1000) + burst


def flattery(traffic: float, bursts: int) -> Optional[float]:
    """By how much an operation may look faster than the wires allow, as a share of its rate.

    traffic: payload bytes that it sends from one node over all rails; bursts: bytes of the buckets of
    that node's ports together. Whatever part each rail carries, `bursts` of it may pass at once, and
    the rest passes at the rate. None: the buckets could hold all of it.
    """
    free = bursts * _PAYLOAD_SHARE
    return free / (traffic - free) if traffic > free else None


def shape(ip: Any, device: str, rate: int, queue_ms: float, burst: int) -> None:
    """Sets the rate of one device and the depth of its bucket; rate 0 removes the limit."""
    index = ip.link_lookup(ifname=device)[0]
    _end_delay(ip, index)
    if rate == 0:
        for qdisc in ip.get_qdiscs(index=index):
            if qdisc.get_attr("TCA_KIND") == "tbf":
                ip.tc("del", index=index, parent=_ROOT)
        return
    ip.tc("replace", "tbf", index, rate=rate // 8, burst=burst,
          limit=queue_bytes(rate, queue_ms, burst))


def limit_segments(ip: Any, device: str, size: int) -> None:
    """Sets the largest segment of a device; sockets that exist keep the one that they began with."""
    ip.link("set", index=ip.link_lookup(ifname=device)[0], gso_max_size=size)


def _end_delay(ip: Any, index: int) -> None:
    # With the bucket around it: a bucket whose content is taken away alone drops everything.
    if any(qdisc.get_attr("TCA_KIND") == "netem" for qdisc in ip.get_qdiscs(index=index)):
        ip.tc("del", index=index, parent=_ROOT)


def counters(ip: Any, device: str) -> Dict[str, int]:
    """Bytes and packets both ways; drops of the device's queue, its backlog in bytes, the rate it
    really has in bit/s (0 = no limit) and its delay; carrier (0 or 1) and how often it was lost."""
    index = ip.link_lookup(ifname=device)[0]
    link = ip.get_links(index)[0]
    stats = link.get_attr("IFLA_STATS64") or {}
    result = {key: int(stats.get(key, 0))
              for key in ("tx_bytes", "rx_bytes", "tx_packets", "rx_packets")}
    result.update(queue_drops=0, backlog=0, rate=0, delay_ms=0,
                  carrier=int(link.get_attr("IFLA_CARRIER") or 0),
                  carrier_losses=int(link.get_attr("IFLA_CARRIER_DOWN_COUNT") or 0))
    for qdisc in ip.get_qdiscs(index=index):
        stats = qdisc.get_attr("TCA_STATS") or {}
        if qdisc.get_attr("TCA_KIND") == "tbf":
            result["queue_drops"] = int(stats.get("drop", 0))
            result["backlog"] = int(stats.get("backlog", 0))
            result["rate"] = 8 * int(qdisc.get_attr("TCA_OPTIONS").get_attr("TCA_TBF_PARMS")["rate"])
        elif qdisc.get_attr("TCA_KIND") == "netem":
            from pyroute2.netlink.rtnl.tcmsg.common import tick_in_usec  # a loopback lab has no pyroute2

            result["delay_ms"] = round(qdisc.get_attr("TCA_OPTIONS")["delay"] / tick_in_usec / 1000)
    return result
