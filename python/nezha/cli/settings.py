"""Configuration on command lines: `--config key=value`."""

from __future__ import annotations

from typing import Dict, List

from ..bench.errors import BenchError


def settings(pairs: List[str]) -> Dict[str, str]:
    """The pairs as a mapping, the last of a key counts. Raises BenchError where one is no pair."""
    found = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals or not key:
            raise BenchError(f"--config {pair!r}: write key=value")
        found[key.strip()] = value.strip()
    return found
