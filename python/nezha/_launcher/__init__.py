"""Starts the ranks of a job, watches them, and ends them together: what `nezha run` is made of, and
what `nezha bench` and `nezha chaos` run their ranks with.

    hostfile     which hosts, with how many slots
    job_key      what ranks get of the aggregation nodes' key
    placement    which rank runs where, with which environment and how it is started
    ssh          a rank on another host
    watch        output, deaths, signals; the outcome
    rank_output  lines of a rank, and the last ones kept
    alike        what many ranks say is printed once
    reaper       ends the ranks when the launcher was killed
"""

from .._command_errors import LaunchError
from .placement import Rank, in_lab, in_node, on_hosts, on_this_host
from .watch import Failure, Outcome, launch, listen

__all__ = ["Failure", "LaunchError", "Outcome", "Rank", "in_lab", "in_node", "launch", "listen",
           "on_hosts", "on_this_host"]
