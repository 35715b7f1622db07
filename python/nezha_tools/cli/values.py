"""Values that several commands read from their command lines: `--config key=value`, `--rates`."""

from __future__ import annotations

from typing import Dict, List, Mapping

import typer

from .errors import BenchError
from ..lab import parse_rail

CONFIG = typer.Option([], "--config", help="key=value of Nezha's configuration; repeatable.")


def settings(pairs: List[str], taken: Mapping[str, str]) -> Dict[str, str]:
    """The pairs as a mapping, the last of a key counts.

    taken: keys that would have no effect, and why. Raises BenchError for one of them, and where one is
    no pair.
    """
    found = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals or not key:
            raise BenchError(f"--config {pair!r}: write key=value")
        if key.strip() in taken:
            raise BenchError(f"--config {pair} has no effect: {taken[key.strip()]}")
        found[key.strip()] = value.strip()
    return found


def read_rates(text: str) -> List[str]:
    """The rates of a lab's rails, "1gbit,ofi:500mbit", as a list. Raises LabError for what is no rate."""
    words = text.split(",")
    for word in words:
        parse_rail(word)
    return words
