"""Checks of single values of a question, with errors that name the field."""

from __future__ import annotations

from typing import Any

from .errors import PlanError


def refused(field: str, value: Any, allowed: str) -> PlanError:
    """The error for `field`: what it is, and what it may be."""
    shown = value if isinstance(value, (int, float)) and not isinstance(value, bool) else repr(value)
    return PlanError(f"{field} {shown}: it must be {allowed}")


def whole(field: str, value: Any, least: int, most: int) -> int:
    """`value` as an int. Raises PlanError outside `least` to `most`, and for what is no whole
    number."""
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
        raise refused(field, value, f"a whole number from {least} to {most}")
    return value


def fraction(field: str, value: Any, allow_zero: bool) -> float:
    """`value` as a float of 0 to 1. Raises PlanError outside, and for 0 unless that is allowed."""
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if not number or not (0 <= value <= 1) or (value == 0 and not allow_zero):
        raise refused(field, value, f"a number {'from 0' if allow_zero else 'above 0'} to 1")
    return float(value)
