"""The numbers that the paper prints: read once from data/published.json, looked up by name."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import lru_cache
from importlib import resources
from typing import Any, Dict, List, Optional


@dataclass(frozen=True)
class Number:
    """One published number, or a range from `low` to `high`. place: where the source prints it."""

    name: str
    low: float
    high: float
    unit: str
    place: str

    @property
    def middle(self) -> float:
        """The middle of the range; the number itself where it is one."""
        return (self.low + self.high) / 2

    @property
    def text(self) -> str:
        """As a reader wants it: `58 to 87 %`."""
        ends = f"{self.low:g}" if self.low == self.high else f"{self.low:g} to {self.high:g}"
        return f"{ends} {self.unit}"


@lru_cache(maxsize=None)
def data() -> Dict[str, Any]:
    """The whole file data/published.json."""
    text = (resources.files("nezha_study.paper") / "data" / "published.json").read_text(encoding="utf-8")
    return dict(json.loads(text))


@lru_cache(maxsize=None)
def numbers() -> Dict[str, Number]:
    """All numbers by name. A cell of a table is `table1/8M avg/R`, and its place has its row and
    column."""
    found: Dict[str, Number] = {}
    for row in data()["numbers"]:
        found[row["name"]] = Number(row["name"], row["low"], row.get("high", row["low"]), row["unit"],
                                    row["place"])
    for table in data()["tables"]:
        for row, values in table["rows"].items():
            for column, value in zip(table["columns"], values):
                name = f"{table['name']}/{row}/{column}"
                found[name] = Number(name, value, value, table["unit"],
                                     f"{table['place']}, row {row}, column {column}")
    return found


def number(name: str) -> Number:
    """The number of that name. Raises KeyError for a name that the paper has no number for."""
    return numbers()[name]


def find(name: str) -> Optional[Number]:
    """The number of that name; None where the paper prints none."""
    return numbers().get(name)


def row(table: str, name: str) -> List[Number]:
    """The cells of one row of a table, in the order of its columns. Raises KeyError."""
    columns = next(each["columns"] for each in data()["tables"] if each["name"] == table)
    return [number(f"{table}/{name}/{column}") for column in columns]
