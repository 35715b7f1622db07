"""Quantities as people write them, with their units: rates, times, counts of parameters.

A number without a unit is refused, because a rate of 200 may be bits or bytes. `b` is a bit and `B`
a byte: `200Gbit/s`, `200Gbps`, `200Gb/s` and `200G` (as Ethernet ports are named) are 25e9 bytes
per second, as are `25GB/s` and `25GBps`. Prefixes of rates are powers of 1000.
"""

from __future__ import annotations

import re
from typing import List, Tuple

from .errors import PlanError
from .validation import refused

_DECIMAL = {"": 1.0, "k": 1e3, "m": 1e6, "g": 1e9, "t": 1e12}
_NUMBER = r"\s*([+-]?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)\s*"
_BITS = re.compile(_NUMBER + r"([kKmMgGtT])(?:[bB]it(?:/s|ps)?|b/s|bps|)\s*")
_BYTES = re.compile(_NUMBER + r"([kKmMgGtT]?)(?:B/s|Bps|[bB]yte/s)\s*")
_TIME = re.compile(_NUMBER + r"(ns|us|ms|s)\s*")
_COUNT = re.compile(_NUMBER + r"([KkMmBbGgTt]?)\s*")
_FLOPS = re.compile(_NUMBER + r"([TtPp])FLOPS?(?:/s)?\s*", re.IGNORECASE)
_SECONDS = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0}
_COUNTS = {"": 1.0, "k": 1e3, "m": 1e6, "b": 1e9, "g": 1e9, "t": 1e12}
_RATES = "a rate above 0 with its unit, such as 200Gbit/s (bits) or 25GB/s (bytes)"
MOST_NICS = 1024


def parse_rate(field: str, text: object) -> float:
    """Bytes per second. Raises PlanError without a unit, and for what is not above 0."""
    bits = _BITS.fullmatch(text) if isinstance(text, str) else None
    if bits is not None:
        value = float(bits.group(1)) * _DECIMAL[bits.group(2).lower()] / 8
    else:
        found = _BYTES.fullmatch(text) if isinstance(text, str) else None
        if found is None:
            raise refused(field, text, _RATES)
        value = float(found.group(1)) * _DECIMAL[found.group(2).lower()]
    if not 0 < value < 1e18:
        raise refused(field, text, _RATES)
    return value


def parse_seconds(field: str, text: object) -> float:
    """Seconds; 0 is allowed. Raises PlanError without a unit, and below 0."""
    match = _TIME.fullmatch(text) if isinstance(text, str) else None
    value = float(match.group(1)) * _SECONDS[match.group(2)] if match else -1.0
    if not 0 <= value < 1e6:
        raise refused(field, text, "a time of 0 or more with its unit, such as 20us or 1.5ms")
    return value


def parse_parameters(field: str, text: object) -> float:
    """A count such as `80B` (80e9), `350M` or 2000000000. Raises PlanError below 1000: a unit is
    missing."""
    match = _COUNT.fullmatch(str(text))
    value = float(match.group(1)) * _COUNTS[match.group(2).lower()] if match else -1.0
    if not 1000 <= value <= 1e18:
        raise refused(field, text, "a count such as 80B, 350M or 2000000000")
    return value


def parse_flops(field: str, text: object) -> float:
    """TFLOP per second of `312TFLOPS` or `2.25PFLOPS`. Raises PlanError without a unit, and not
    above 0."""
    match = _FLOPS.fullmatch(text) if isinstance(text, str) else None
    value = float(match.group(1)) * (1e3 if match.group(2) in "Pp" else 1.0) if match else -1.0
    if not 0 < value < 1e9:
        raise refused(field, text, "a speed above 0 with its unit, such as 312TFLOPS")
    return value


def parse_nics(field: str, text: object) -> Tuple[int, float]:
    """(how many, bytes per second of each) of `8x400Gbit/s`. Raises PlanError, also without a unit."""
    allowed = f"a count of 1 to {MOST_NICS} and a rate with its unit, such as 8x400Gbit/s or 4x25GB/s"
    count, cross, rate = text.partition("x") if isinstance(text, str) else ("", "", "")
    if not cross or not count.strip().isdecimal() or not 1 <= int(count) <= MOST_NICS:
        raise refused(field, text, allowed)
    try:
        return int(count), parse_rate(field, rate)
    except PlanError:
        raise refused(field, text, allowed) from None


def parse_rails(field: str, text: str) -> List[Tuple[float, float]]:
    """(bytes per second, latency in seconds) of each rail in `25Gbit/s:20us,10Gbit/s:50us`; 1 to 16
    rails."""
    rails = []
    for part in text.split(","):
        rate, colon, latency = part.partition(":")
        if not colon:
            raise refused(field, part, "RATE:LATENCY, such as 25Gbit/s:20us")
        rails.append((parse_rate(field, rate), parse_seconds(field, latency)))
    if len(rails) > 16:
        raise PlanError(f"{field}: {len(rails)} rails; it must be 1 to 16")
    return rails


def gbps(rate: float) -> float:
    """1e9 bits per second of a rate in bytes per second."""
    return rate * 8 / 1e9


def rate_text(rate: float) -> str:
    """Both units at once, so that nobody has to guess: `25 GB/s (200 Gbit/s)`."""
    return f"{rate / 1e9:.4g} GB/s ({gbps(rate):.4g} Gbit/s)"


def time_text(seconds: float) -> str:
    """Four digits with the unit that fits: `12.8 s`, `640 ms`, `46.7 us`."""
    if seconds == 0:
        return "0 s"
    for unit in ("s", "ms", "us"):
        if seconds >= _SECONDS[unit]:
            return f"{seconds / _SECONDS[unit]:.4g} {unit}"
    return f"{seconds / 1e-9:.3g} ns"


def bytes_text(size: float) -> str:
    """Four digits, powers of 1000: `16 GB`."""
    for unit, factor in (("TB", 1e12), ("GB", 1e9), ("MB", 1e6), ("KB", 1e3)):
        if size >= factor:
            return f"{size / factor:.4g} {unit}"
    return f"{size:.4g} B"
