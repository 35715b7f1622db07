"""The communication profile: how many operations of which size a training step makes.

Sizes are classed by powers of two, as the paper's Fig. 9 does. Pure functions.
"""

from __future__ import annotations

from typing import Any, Dict, List, Sequence, Tuple

from ..cli.sizes import format_size

_SMALLEST = 4096  # everything below is one class: such operations cost their latency only


def size_class(size: int) -> Tuple[int, int]:
    """(from, below) in bytes: the powers of two around `size`. Raises ValueError where negative."""
    if size < 0:
        raise ValueError(f"an operation of {size} bytes")
    if size < _SMALLEST:
        return 0, _SMALLEST
    low = 1 << (size.bit_length() - 1)
    return low, 2 * low


def class_name(low: int, below: int) -> str:
    """As a table shows it: "2M..4M", "< 4K"."""
    return f"{format_size(low)}..{format_size(below)}" if low else f"< {format_size(below)}"


def profile(buckets: Sequence[int], tensors: Sequence[int]) -> List[Dict[str, Any]]:
    """A line for each size class with something in it, from small to large.

    buckets: bytes of each all-reduce of a step; tensors: bytes of each gradient, which is what
    would be sent without buckets. A line: class, low, below, all_reduces, bytes, share (of all
    bytes), tensors.
    """
    total = sum(buckets)
    classes = sorted({size_class(size) for size in [*buckets, *tensors]})
    lines = []
    for low, below in classes:
        inside = [size for size in buckets if size_class(size) == (low, below)]
        lines.append({
            "class": class_name(low, below), "low": low, "below": below,
            "all_reduces": len(inside), "bytes": sum(inside),
            "share": sum(inside) / total if total else 0.0,
            "tensors": sum(size_class(size) == (low, below) for size in tensors)})
    return lines


def union_seconds(intervals: Sequence[Tuple[float, float]]) -> float:
    """Length of the union of (begin, end) intervals: time in which at least one was under way."""
    total, reached = 0.0, float("-inf")
    for begin, end in sorted(intervals):
        total += max(0.0, end - max(begin, reached))
        reached = max(reached, end)
    return total
