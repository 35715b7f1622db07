"""What a command tells its user before it ends: one class for each part.

Each message says what to do about it.
"""

from __future__ import annotations


class AggregatorError(Exception):
    """An aggregation node cannot be run as it was asked to."""


class BenchError(RuntimeError):
    """A measurement could not be made."""


class ChaosError(RuntimeError):
    """A run with faults could not be set up or reported."""


class LabError(RuntimeError):
    """A lab could not be built, found or changed."""


class PlanError(ValueError):
    """A question is invalid; one sentence names the field, its value and what is allowed."""
