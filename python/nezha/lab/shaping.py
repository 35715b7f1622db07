"""Honest wires: one token bucket on each end of each port, and the counters that prove it.

Rates are bits per second, sizes bytes. All functions run in the namespace of the device they
are given (see kernel.in_netns) on an open pyroute2 IPRoute.
"""

from __future__ import annotations

from typing import Any, Dict

_ROOT = 0xFFFFFFFF

# Largest segment the stack may hand to a shaped device (IFLA_GSO_MAX_SIZE). Each costs two timers
# and two bridge crossings, so bigger is cheaper; but the bucket must hold one, or the kernel cuts
# it into single frames, which costs several times the CPU.
GSO_MAX_SIZE = 16384
_SEGMENT_ON_WIRE = 17300  # with the headers of its frames
# Tokens that may gather while the timer is late. Together with one segment this is 24 000 bytes at
# 1 gbit: 256 KiB after a pause then beat the wire by 9.6 % at the very most (see HONEST_FACTOR).
_TIMER_SLACK_S = 54e-6
# The bucket's content goes at once, the rest at the rate: a transfer of n payload bytes looks
# n / (n - bucket) as fast as the wire, which is 1.1 for a payload of eleven buckets.
HONEST_FACTOR = 11
_PAYLOAD_SHARE = 1448 / 1514


def default_burst(rate: int) -> int:
    """Bucket depth for a rate: the smallest that still reaches it."""
    return _SEGMENT_ON_WIRE + int(rate / 8 * _TIMER_SLACK_S)


def honest_from(burst: int) -> int:
    """Smallest transfer that can never beat the wire by more than 10 %."""
    return int(HONEST_FACTOR * burst * _PAYLOAD_SHARE)


def queue_bytes(rate: int, queue_ms: float, burst: int) -> int:
    """Bytes that may wait at a port before it drops."""
    return int(rate / 8 * queue_ms / 1000) + burst


def shape(ip: Any, device: str, rate: int, queue_ms: float, burst: int) -> None:
    """Sets the rate of one device; 0 removes the limit. burst 0 chooses default_burst(rate)."""
    index = ip.link_lookup(ifname=device)[0]
    _end_delay(ip, index)
    if rate == 0:
        for qdisc in ip.get_qdiscs(index=index):
            if qdisc.get_attr("TCA_KIND") == "tbf":
                ip.tc("del", index=index, parent=_ROOT)
        return
    depth = burst or default_burst(rate)
    ip.tc("replace", "tbf", index, rate=rate // 8, burst=depth,
          limit=queue_bytes(rate, queue_ms, depth))


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
            from . import delays  # needs pyroute2, which a loopback lab does not

            result["delay_ms"] = delays.milliseconds(qdisc)
    return result
