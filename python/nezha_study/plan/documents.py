"""Files that a person wrote or a program measured: YAML and JSON, with errors that name the file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Dict, List, Set

from nezha_tools.cli.errors import PlanError
from nezha.files import read_text

_BYTES_MAX = 64 << 20


def read_document(path: Path, known: Set[str]) -> Dict[str, Any]:
    """The mapping in a YAML (or JSON) file. Raises PlanError for a field that is not in `known`."""
    import yaml

    try:
        document = yaml.safe_load(_read(path))
    except yaml.YAMLError as error:
        raise PlanError(f"{path} is no YAML: {' '.join(str(error).split())}") from None
    if not isinstance(document, dict):
        raise PlanError(f"{path} must be a mapping of {', '.join(sorted(known))}")
    for name in document:
        if name not in known:
            raise PlanError(f"{path}: {name!r} is no field; the fields are {', '.join(sorted(known))}")
    return document


def read_json(path: Path) -> Any:
    """The value in a JSON file. Raises PlanError where it is none."""
    text = _read(path)
    try:
        return json.loads(text)
    except ValueError as error:
        raise PlanError(f"{path} is no JSON: {error}") from None


def text_list(field: str, value: Any) -> List[str]:
    """`value` as a list of names. Raises PlanError for anything else."""
    if not isinstance(value, list) or not all(isinstance(each, (str, int)) for each in value):
        raise PlanError(f"{field} must be a list of names")
    return [str(each) for each in value]


def _read(path: Path) -> str:
    try:
        return read_text(path, _BYTES_MAX)
    except (OSError, UnicodeDecodeError) as error:
        raise PlanError(f"cannot read {path}: {error}") from None
