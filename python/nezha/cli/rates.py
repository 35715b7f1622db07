"""`--rates`: the rates of a lab's rails, one word a rail."""

from __future__ import annotations

from typing import List

from ..lab.spec import parse_rail


def read(text: str) -> List[str]:
    """The words of "1gbit,ofi:500mbit". Raises LabError for what is no rate."""
    words = text.split(",")
    for word in words:
        parse_rail(word)
    return words
