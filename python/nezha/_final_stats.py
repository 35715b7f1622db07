"""What a rank's communicators counted, left in a file each for the tool that started the rank.

Only where NEZHA_LAB_STATS names a directory. A file holds {"rank", "pid", "stats"}, with stats as
Communicator.stats() gives them at the end; a rank that is killed leaves none.
"""

from __future__ import annotations

import json
import os
import weakref
from typing import Any

from .errors import Error

# Communicators made by nezha.init(), with their number; those split off them count nothing else.
_roots: "weakref.WeakKeyDictionary[Any, int]" = weakref.WeakKeyDictionary()


def watch(native: Any) -> None:
    """`native` is a communicator whose counters are wanted."""
    _roots[native] = len(_roots)


def save(native: Any) -> None:
    """Writes the file of a communicator that is about to be closed. Never raises."""
    folder = os.environ.get("NEZHA_LAB_STATS")
    if not folder or native not in _roots:
        return
    number = _roots.pop(native)
    path = os.path.join(folder, f"{os.getpid()}-{number}-{native.rank}")
    try:
        record = {"rank": int(os.environ.get("RANK", native.rank)), "pid": os.getpid(),
                  "stats": json.loads(native.describe("stats"))}
        with open(path, "x", encoding="utf-8") as file:
            json.dump(record, file)
        os.replace(path, path + ".json")
    except (OSError, ValueError, Error):
        return  # the counters are not worth the program's orderly end
