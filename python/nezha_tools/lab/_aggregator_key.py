"""The key of a lab's aggregation nodes, and what its processes get of it: the key of one job, the lab."""

from __future__ import annotations

import contextlib
import os
import secrets
from typing import Dict

from . import _state


def path(lab: _state.LabState) -> str:
    """The file of the nodes' own key."""
    return _state.path_of(lab.name)[:-len("json")] + "agg.key"


def make(lab: _state.LabState) -> str:
    """Makes the file, unless it is there: nodes that are started again keep their key. Returns path()."""
    with contextlib.suppress(FileExistsError):
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
        with os.fdopen(os.open(path(lab), flags, 0o600), "w", encoding="ascii") as file:
            file.write(secrets.token_hex(32) + "\n")
    return path(lab)


def environment(lab: _state.LabState) -> Dict[str, str]:
    """What makes a process a member of the lab's job at its nodes; nothing before they were started."""
    if not os.path.exists(path(lab)):
        return {}
    from nezha.queries import ask

    answer = ask("job_key", {"key_file": path(lab), "job": lab.name})
    return {"NEZHA_AGGREGATOR_JOB_KEY": answer["job_key"]}


def forget(lab: _state.LabState) -> None:
    """Removes the file."""
    with contextlib.suppress(OSError):  # it was never written, or somebody else was quicker
        os.unlink(path(lab))
