"""Which processors the nodes of a lab get; `--cores-per-rail`: to which ones a rank is restricted.

A host of a cluster computes on processors of its own. So each node of a lab keeps to its part of this
machine's: without that, times of some microseconds tell which ranks the scheduler happened to put
beside which.

A rank has one loop, driven by whoever waits (docs/thread_model.md), and no rail has a thread. So
`--cores-per-rail K` gives a rail no processor: it restricts the whole process of a rank to K times its
number of rails, which the program, the loop and the background thread share. Ranks of one host take
turns on the processors that this process may use.
"""

from __future__ import annotations

import os
from contextlib import contextmanager
from typing import Any, Dict, Iterator, List, Mapping, Optional, Sequence

from nezha.launch_environment import local_place
from ..cli.errors import BenchError
from .spec import BenchSpec


def allowed() -> List[int]:
    """The processors that this process may use."""
    return sorted(os.sched_getaffinity(0))


def processors_of(node: int, nodes: int, cpus: Sequence[int]) -> List[int]:
    """The processors of a lab's node: as many as each other's, in a row; at least one, which it shares
    with other nodes where there are fewer processors than nodes."""
    begin, end = node * len(cpus), (node + 1) * len(cpus)
    return list(cpus[begin // nodes:-(-end // nodes)])


@contextmanager
def children_on(cpus: Sequence[int]) -> Iterator[None]:
    """Processes that this thread starts meanwhile keep to `cpus`."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cpus)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def allot(wanted: int, local_rank: int, cpus: Sequence[int]) -> List[int]:
    """`wanted` processors for the `local_rank`th rank of a host, of `cpus`; fewer where there are
    fewer, and the same as other ranks' where they run out."""
    begin = local_rank * wanted
    return sorted({cpus[(begin + index) % len(cpus)] for index in range(wanted)})


def restrict(spec: BenchSpec, environment: Mapping[str, str] = os.environ) -> Dict[str, str]:
    """Gives this process its processors, before it joins its world. The configuration with which it
    must join: the background thread gets the same ones. Without --cores-per-rail nothing changes."""
    if spec.cores is None:
        return spec.config
    cpus = allot(spec.cores, _local_rank(environment), allowed())
    os.sched_setaffinity(0, cpus)
    return {**spec.config, "cpu_affinity": ",".join(str(cpu) for cpu in cpus)}


def _local_rank(environment: Mapping[str, str]) -> int:
    if "NEZHA_LAB" in environment:  # all nodes are this host
        return int(environment["RANK"])
    local_rank = local_place(environment)[0]
    if local_rank is None:
        raise BenchError("--cores-per-rail must know which rank of its host this one is: launch with "
                         "nezha run, torchrun, srun or MPI, or set LOCAL_RANK")
    return local_rank


def ranks_here(ranks: int, environment: Mapping[str, str] = os.environ) -> Optional[int]:
    """How many of `ranks` are on this host; None where the launcher does not say."""
    if "NEZHA_LAB" in environment:
        return ranks
    return local_place(environment)[1]


def facts(per_rail: int, rails: int, here: Optional[int]) -> Dict[str, Any]:
    """What was asked for and what this host has: the JSON's config.cores."""
    host = len(allowed())
    wanted = per_rail * rails
    return {"per_rail": per_rail, "rails": rails, "wanted_per_rank": wanted, "host": host,
            "ranks_on_host": here, "given_per_rank": min(wanted, host),
            "shared": here is None or here * wanted > host}


def line(cores: Mapping[str, Any]) -> str:
    """The comment line that says it."""
    text = (f"# cores: {cores['given_per_rank']} for each rank, for all of its threads "
            f"({cores['per_rail']} times {cores['rails']} rail(s))")
    if cores["wanted_per_rank"] > cores["host"]:
        text += f"; {cores['wanted_per_rank']} were asked for, and this host has {cores['host']}"
    if cores["ranks_on_host"] is None:
        return text + "; the launcher does not say how many ranks share this host"
    if cores["shared"]:
        return text + (f"; NOT of its own: {cores['ranks_on_host']} ranks share the "
                       f"{cores['host']} cores of this host")
    return text + ", of its own"
