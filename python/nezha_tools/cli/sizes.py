"""Sizes as people write them: `4`, `8M`, `64M`; K, M and G are powers of 1024."""

from __future__ import annotations

import re
from typing import List

_UNITS = {"": 1, "B": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}
_PATTERN = re.compile(r"^\s*(\d+(?:\.\d+)?)\s*([KMGT]?)(I?B)?\s*$", re.IGNORECASE)


def parse_size(text: str) -> int:
    """Bytes of `text` ("64K" is 65536). Raises ValueError with an example."""
    match = _PATTERN.match(text)
    if match is None:
        raise ValueError(f"size {text!r}: write a number with K, M or G, for example 8M")
    value = float(match.group(1)) * _UNITS[match.group(2).upper()]
    if value != int(value):
        raise ValueError(f"size {text!r} is not a whole number of bytes")
    return int(value)


def format_size(size: int) -> str:
    """The shortest exact form: 65536 is "64K", 100 is "100"."""
    for unit in ("G", "M", "K"):
        if size and size % _UNITS[unit] == 0:
            return f"{size // _UNITS[unit]}{unit}"
    return str(size)


def size_list(first: int, last: int, factor: int, itemsize: int) -> List[int]:
    """Sizes in bytes from `first` to `last`, each `factor` times the one before.

    Every size is rounded down to whole elements of `itemsize` bytes, to one element at least; a
    size appears once. Raises ValueError where the range is empty or would never end.
    """
    if first > last:
        raise ValueError(f"-b {first} is larger than -e {last}")
    if factor < 2 and first != last:
        raise ValueError(f"-f {factor}: the factor must be 2 or more")
    sizes: List[int] = []
    size = max(first, 1)
    while size <= last or not sizes:
        rounded = max(size // itemsize, 1) * itemsize
        if rounded not in sizes:
            sizes.append(rounded)
        if first == last:
            break
        size *= factor
    return sizes
