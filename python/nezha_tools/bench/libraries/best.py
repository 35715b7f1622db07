"""The best that a library reached with any of its settings, at each size."""

from __future__ import annotations

from typing import Any, Dict, List, Mapping, Set

from ..rows import Row
from . import settings


def best(rows: Mapping[str, List[Row]]) -> Dict[str, Dict[str, Any]]:
    """By library that was measured with several settings: their names, and for each size the row of the
    fastest, with its name as "setting".

    rows: of each setting by its name, all of the same sizes.
    """
    found = {}
    for library in settings.SETTINGS:
        measured = [name for name in settings.names(library) if name in rows]
        if len(measured) < 2:
            continue
        at_each_size = zip(*([{**row, "setting": name} for row in rows[name]] for name in measured))
        found[library] = {"settings": measured,
                          "rows": [min(each, key=lambda row: row["time_us"]) for each in at_each_size]}
    return found


def beside(found: Mapping[str, Dict[str, Any]]) -> Set[str]:
    """Settings of what best() found that are no library's default: JSON has them, tables and pictures the
    best of them."""
    return {name for each in found.values() for name in each["settings"] if name not in settings.SETTINGS}
