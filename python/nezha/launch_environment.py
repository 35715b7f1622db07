"""Who am I, how many are we, and where do we meet: read from what a launcher left behind.

The library knows the launchers' variables (src/context/launch_environment.h); this is what it says of a
mapping of variables, to nezha.init, which asks `detect`, and to commands, which ask `launched` and
`local_place`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Dict, Mapping, Optional, Tuple

from .errors import InvalidArgument
from .queries import ask

# Beginnings of the launchers' variables, and the variables that say where ranks meet.
_BEGINNINGS = ("RANK", "WORLD_SIZE", "LOCAL_", "OMPI_", "PMI", "MPI_", "SLURM_", "MASTER_",
               "TORCHELASTIC_", "NEZHA_STORE", "NEZHA_JOB")


@dataclass(frozen=True)
class LaunchEnvironment:
    """What init() needs. `store` is an address of nezha.h; `source` names the launcher.

    torch_store: True when MASTER_ADDR:MASTER_PORT is a store that torchrun itself already serves.
    """

    rank: int
    world_size: int
    store: str
    source: str
    job: Optional[str] = None
    torch_store: bool = False


@dataclass(frozen=True)
class Launched:
    """A process that a launcher made a rank. `variable` is the one that says so, `launcher` its owner."""

    rank: int
    world_size: int
    launcher: str
    variable: str


def launched(env: Mapping[str, str]) -> Optional[Launched]:
    """The rank that this process is without being told more than `env`, as nezha.init() would see it.

    None where no launcher started it: a batch script of Slurm has the job's variables, but srun starts
    the ranks. Raises InvalidArgument naming what is missing when there is only a part.
    """
    found = _ask(env)
    if found is None or found["is_batch_script"]:
        return None
    return Launched(found["rank"], found["world_size"], found["launcher"], found["variable"])


def local_place(env: Mapping[str, str]) -> Tuple[Optional[int], Optional[int]]:
    """(number of this rank among those of its host, how many they are); None: the launcher does not
    say, or what it says makes no rank."""
    try:
        found = _ask(env)
    except InvalidArgument:
        return None, None
    return (None, None) if found is None else (found["local_rank"], found["local_size"])


def detect(env: Mapping[str, str], rank: Optional[int] = None, world_size: Optional[int] = None,
           store: Optional[str] = None) -> Optional[LaunchEnvironment]:
    """Reads a launcher's variables; arguments that are not None go before them.

    Returns None when there is neither: a world of one process. Raises InvalidArgument naming what
    is missing when there is only a part.
    """
    found = _ask(env, rank, world_size, meet=store is None)
    if found is None:
        return None
    return LaunchEnvironment(found["rank"], found["world_size"], store or found["store"],
                             found["launcher"], found["job"] or None, found.get("is_torchs", False))


def meets_at_master(env: Mapping[str, str]) -> bool:
    """Whether the variables of torch say where ranks meet; torch's own process group may be there."""
    return not env.get("NEZHA_STORE") and bool(env.get("MASTER_ADDR") and env.get("MASTER_PORT"))


def _ask(env: Mapping[str, str], rank: Optional[int] = None, world_size: Optional[int] = None,
         meet: bool = False) -> Optional[Dict[str, Any]]:
    known = {name: value for name, value in env.items() if name.startswith(_BEGINNINGS)}
    found: Optional[Dict[str, Any]] = ask("launch", {"environment": known, "rank": _whole(rank),
                                                     "world_size": _whole(world_size), "meet": meet})
    return found


def _whole(number: Optional[int]) -> Optional[int]:
    return None if number is None else number.__index__()
