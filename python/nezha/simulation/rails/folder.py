"""A folder whose new files are all there or none: what Ctrl-C leaves behind of a study."""

from __future__ import annotations

import os
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import Iterator


@contextmanager
def whole_folder(folder: Path) -> Iterator[Path]:
    """A folder to write files into that moves them to `folder` at the end, each in one step, and none
    after an exception. Raises OSError where `folder` cannot be made or written."""
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder, prefix=".unfinished-") as place:
        yield Path(place)
        for file in sorted(Path(place).iterdir()):
            os.replace(file, folder / file.name)
