"""The file of `nezha bench interference`, for rails that are named by their number."""

from __future__ import annotations

from pathlib import Path
from typing import Any, List, Tuple

from .documents import read_json
from nezha_tools.cli.errors import PlanError


def read_interference(path: Path, rails: int) -> Tuple[float, List[List[float]]]:
    """(cost of splitting in seconds, matrix of the parts of their rates that rails lose). Raises
    PlanError where the file is no such file, or is of another number of rails: they are taken in
    its order."""
    document = read_json(path)
    names = document.get("rails") if isinstance(document, dict) else None
    if not isinstance(names, list) or document.get("version") != 1:
        raise PlanError(f"{path} is no file of nezha bench interference")
    if len(names) != rails:
        raise PlanError(f"{path} is of {len(names)} rails, and {rails} are given; they must be the "
                        "same, in its order")
    cost, lost = document.get("split_cost_s"), document.get("rate_lost")
    if not _is_part(cost, 10.0) or not _is_matrix(lost, rails):
        raise PlanError(f"{path}: split_cost_s must be 0 to 10 s, and rate_lost a matrix of parts "
                        "from 0 to below 1")
    return float(cost), lost


def _is_part(value: Any, most: float) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value <= most


def _is_matrix(value: Any, rails: int) -> bool:
    return (isinstance(value, list) and len(value) == rails
            and all(isinstance(line, list) and len(line) == rails for line in value)
            and all(_is_part(part, 0.999999) for line in value for part in line))
