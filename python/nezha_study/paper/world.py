"""How the study's workers join the world that their environment describes."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from typing import Any, Dict, Iterator, Optional


@contextmanager
def joined(config: Optional[Dict[str, str]] = None) -> Iterator[Any]:
    """The communicator of all ranks. An error of the library ends this process with its sentence."""
    import nezha

    try:
        with nezha.init(config=config) as comm:
            yield comm
    except nezha.Error as error:
        sys.exit(str(error))
