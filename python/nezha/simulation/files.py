"""Files that are there whole or not at all: written beside their place, and moved to it when complete."""

from __future__ import annotations

import json
import os
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Callable, Iterator, Optional

from .. import console
from ..planning.errors import PlanError


@contextmanager
def whole(path: Path) -> Iterator[Path]:
    """A place to write to; what is there takes the place of `path` unless an exception, Ctrl-C included,
    ends the block. Raises PlanError where the directory cannot be written to."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=path.suffix)
        os.close(handle)
    except OSError as error:
        raise PlanError(f"cannot write {path}: {error}") from None
    try:
        yield Path(name)
        os.chmod(name, 0o644)
        os.replace(name, path)
    except OSError as error:
        raise PlanError(f"cannot write {path}: {error}") from None
    finally:
        Path(name).unlink(missing_ok=True)


@contextmanager
def whole_folder(folder: Path) -> Iterator[Path]:
    """A folder to write files into that moves them to `folder` at the end, each in one step, and none
    after an exception. Raises OSError where `folder` cannot be made or written."""
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder, prefix=".unfinished-") as place:
        yield Path(place)
        for file in sorted(Path(place).iterdir()):
            os.replace(file, folder / file.name)


def answer(document: Any, json_to: Optional[str], show: Callable[[Any], None]) -> None:
    """console.answer(), with a file that is there whole or not at all."""
    if json_to is not None and json_to != "-":
        write_json(document, Path(json_to))
        show(document)
    else:
        console.answer(document, json_to, show)


def write_json(document: Any, path: Path) -> None:
    """Writes JSON."""
    with whole(path) as place:
        place.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
