"""Files that are there whole or not at all: written beside their place, and moved to it when complete."""

from __future__ import annotations

import os
import secrets
import shutil
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import Iterator


@contextmanager
def whole_file(path: Path) -> Iterator[Path]:
    """A place to write to; what is there takes the place of `path` unless an exception, Ctrl-C included,
    ends the block. Folders are made. Raises OSError where it cannot be written.

    A device or a pipe, and a file in a folder that only lets that be changed, is written to itself.
    """
    target = Path(os.path.realpath(path))
    target.parent.mkdir(parents=True, exist_ok=True)
    if target.exists() and not (target.is_file() and os.access(target.parent, os.W_OK)):
        yield target
        return
    place = target.with_name(f".{secrets.token_hex(4)}.{target.name}")
    try:
        yield place
        if target.exists():
            shutil.copymode(target, place)
        os.replace(place, target)
    finally:
        place.unlink(missing_ok=True)


@contextmanager
def whole_folder(folder: Path) -> Iterator[Path]:
    """A folder to write files into that moves them to `folder` at the end, each in one step, and none
    after an exception. Raises OSError where `folder` cannot be made or written."""
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder, prefix=".unfinished-") as place:
        yield Path(place)
        for file in sorted(Path(place).iterdir()):
            os.replace(file, folder / file.name)
