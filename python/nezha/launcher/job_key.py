"""What the ranks of a job get to speak to aggregation nodes: their job's own key, never the nodes'."""

from __future__ import annotations

import os
from typing import Dict, Mapping

from .errors import LaunchError

_JOB_KEY = "NEZHA_AGGREGATOR_JOB_KEY"
_KEY_FILE = "NEZHA_AGGREGATOR_KEY_FILE"


def environment(extra: Mapping[str, str]) -> Dict[str, str]:
    """Variables for every rank of one job, besides `extra`, which goes before this process's own.

    Where a key file of aggregation nodes is configured, a key of this job alone is derived from it; the
    ranks hear of it and not of the file. A key that the user made stays as it is. Raises LaunchError
    where the file cannot be used.
    """
    given = {**os.environ, **extra}
    hidden = {_KEY_FILE: ""} if given.get(_KEY_FILE) else {}
    if given.get(_JOB_KEY):
        return hidden
    from ..errors import Error
    from ..queries import ask

    request = {"key_file": given[_KEY_FILE]} if hidden else {}
    try:
        key = ask("job_key", request)["job_key"]
    except Error as error:
        raise LaunchError(f"no key for the job at its aggregation nodes: {error}") from error
    return {**hidden, _JOB_KEY: key} if key else hidden
