"""What bandwidth means: algorithm and bus bandwidth, and the least time the wires allow.

Units: bytes, seconds, bytes per second; a `gbps` is 1e9 bits per second. Pure functions.
"""

from __future__ import annotations

from typing import Optional, Sequence

# Bytes that must cross a rank's wires per byte of tensor, so that the bus bandwidth of a perfect
# implementation is the speed of the wire, whatever the number of ranks.
_BUS_FACTORS = {
    "all_reduce": lambda ranks: 2.0 * (ranks - 1) / ranks,
    "broadcast": lambda ranks: 1.0 if ranks > 1 else 0.0,
    "reduce": lambda ranks: 1.0 if ranks > 1 else 0.0,
    # Of the bytes of all blocks together.
    "all_gather": lambda ranks: (ranks - 1) / ranks,
    "reduce_scatter": lambda ranks: (ranks - 1) / ranks,
    "gather": lambda ranks: (ranks - 1) / ranks,
    "scatter": lambda ranks: (ranks - 1) / ranks,
    "all_to_all": lambda ranks: (ranks - 1) / ranks,
    "barrier": lambda ranks: 0.0,
}


def bus_factor(collective: str, ranks: int) -> float:
    """Bus bandwidth divided by algorithm bandwidth. Raises ValueError for an unknown name."""
    if collective not in _BUS_FACTORS:
        raise ValueError(f"collective {collective!r}: one of {', '.join(sorted(_BUS_FACTORS))}")
    if ranks < 1:
        raise ValueError(f"{ranks} ranks: at least one is needed")
    return _BUS_FACTORS[collective](ranks)


def gbps(size: int, seconds: float) -> float:
    """Gigabits per second of `size` bytes in `seconds`; 0 where the time is 0."""
    return size * 8 / seconds / 1e9 if seconds > 0 else 0.0


def limit_seconds(
    collective: str, ranks: int, size: int, rates: Sequence[Optional[float]],
    aggregated: Optional[float] = None,
) -> Optional[float]:
    """Least time in which rails of `rates` (bytes/s, raw line rate) can carry the operation.

    aggregated: the rate of one more rail, which leads to an aggregation node. A part of an
    all_reduce that goes that way crosses a rank's wire once each way, whatever the number of ranks; the
    parts are such that all are done at the same time.
    None where a rate is not known, or where nothing has to cross the wire: no limit is better than an
    invented one.
    """
    if any(not rate for rate in rates):
        return None
    traffic = bus_factor(collective, ranks) * size
    speed = sum(rate for rate in rates if rate)
    if aggregated:
        speed += aggregated * (bus_factor(collective, ranks) if collective == "all_reduce" else 1.0)
    return traffic / speed if traffic and speed else None


def percentile(values: Sequence[float], share: float) -> float:
    """The value that a `share` (0 to 1) of `values` does not exceed: nearest rank, no invention."""
    ordered = sorted(values)
    index = max(0, min(len(ordered) - 1, int(-(-share * len(ordered) // 1)) - 1))
    return ordered[index]


def median(values: Sequence[float]) -> float:
    """The middle value; the mean of the middle two where the count is even."""
    ordered = sorted(values)
    middle = len(ordered) // 2
    if len(ordered) % 2:
        return ordered[middle]
    return (ordered[middle - 1] + ordered[middle]) / 2
