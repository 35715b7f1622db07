"""A quaternary fat tree: four hosts or switches below every switch. Pure."""

from __future__ import annotations

ARITY = 4


def switches_between(one: int, other: int) -> int:
    """How many switches a packet passes from one host to another: up to the lowest common switch and
    down, 2 levels - 1."""
    levels = 0
    while one != other:
        one, other, levels = one // ARITY, other // ARITY, levels + 1
    return max(0, 2 * levels - 1)
