"""What a command tells its user before it ends: one class for each part.

Each message says what to do about it.
"""

from __future__ import annotations

import errno

_ELSEWHERE = "name a file in a folder that this user may write to"
_MORE_SPACE = "free some space there, or name a file elsewhere"
_TO_DO = {
    errno.ENOSPC: _MORE_SPACE, errno.EDQUOT: _MORE_SPACE,
    errno.EROFS: _ELSEWHERE, errno.EACCES: _ELSEWHERE, errno.EPERM: "it takes another user, such as root",
    errno.EMFILE: "raise the limit of open files (ulimit -n)",
    errno.ENFILE: "raise the limit of open files of this host (fs.file-max)",
    errno.EAGAIN: "raise the limit of processes (ulimit -u)",
    errno.ENOMEM: "free some memory",
}


class AggregatorError(Exception):
    """An aggregation node cannot be run as it was asked to."""


class BenchError(RuntimeError):
    """A measurement could not be made."""


class ChaosError(RuntimeError):
    """A run with faults could not be set up or reported."""


class LabError(RuntimeError):
    """A lab could not be built, found or changed."""


class LaunchError(RuntimeError):
    """The ranks could not be placed or started."""


class PlanError(ValueError):
    """A question is invalid; one sentence names the field, its value and what is allowed."""


def explained(error: OSError) -> str:
    """What the system refused, where, and what to do, in a sentence."""
    what = error.strerror or str(error)
    if what.startswith("No usable temporary directory"):
        return f"{what}; set TMPDIR to a folder with space that this user may write to"
    place = "" if error.filename is None else f"{error.filename}: "
    to_do = _TO_DO.get(error.errno or 0)
    return f"{place}{what}" + (f"; {to_do}" if to_do else "")
