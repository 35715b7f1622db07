"""Starts the ranks of a job, watches them, and ends them together: what `nezha run` is made of, and
what other programs that start ranks use of it.

    command      `nezha run`: its command line, and what it says in the end
    hostfile     which hosts, with how many slots
    job_key      what ranks get of the aggregation nodes' key
    placement    which rank runs where, with which environment and how it is started
    ssh          a rank on another host
    watch        output, deaths, signals; the outcome
    rank_output  lines of a rank, and the last ones kept
    alike        what many ranks say is printed once
    reaper       ends the ranks when the launcher was killed
"""

from .errors import LaunchError
from .placement import Rank, buffering, identity, on_hosts, on_this_host, variables, with_secret
from .ranks_text import ranks_text
from .watch import Failure, Outcome, launch, listen

__all__ = ["Failure", "LaunchError", "Outcome", "Rank", "buffering", "identity", "launch", "listen",
           "on_hosts", "on_this_host", "ranks_text", "variables", "with_secret"]
