"""Whether a file or folder may be trusted: whoever else could have put it there could act through us.

A predictable name in a folder that everybody may write to (/tmp) can be taken by anybody first.
"""

from __future__ import annotations

import os
import stat
from typing import Optional


def distrusted(path: str) -> Optional[str]:
    """Why what lies at `path` is not this user's own, to follow its name in a sentence; None when it is.

    It is when it belongs to this user or to root, is no symbolic link, and nobody else may write to it.
    What does not exist is nobody's: None.
    """
    try:
        facts = os.lstat(path)
    except FileNotFoundError:
        return None
    if stat.S_ISLNK(facts.st_mode):
        return "is a symbolic link"
    if facts.st_uid not in (os.geteuid(), 0):
        return f"belongs to user {facts.st_uid}"
    if facts.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        return f"can be written by others (mode {stat.S_IMODE(facts.st_mode):04o})"
    return None
