"""Who am I, how many are we, and where do we meet: read from what a launcher left behind.

The one place that knows launchers' variables: nezha.init asks `detect`, commands ask `launched` and
`local_place`. Pure: everything is read from the mapping that is passed in, nothing from the machine.
Launchers in order of precedence: RANK/WORLD_SIZE (nezha run, torchrun, by hand), Open MPI, PMI (MPICH),
Slurm, PMIx. The launchers of MPI go before Slurm, whose variables in their ranks are those of their
daemons.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import List, Mapping, NamedTuple, Optional, Tuple

from .errors import InvalidArgument

# Ports for meeting under Slurm: below the range from which kernels hand out ports of their own.
_SLURM_PORT_BASE = 15000
_SLURM_PORT_COUNT = 15000


class _Launcher(NamedTuple):
    """Names of a launcher's variables. sizes: of the world size, the first that is set counts."""

    name: str
    rank: str
    sizes: Tuple[str, ...]
    local_rank: str
    local_size: str


_LAUNCHERS = (
    _Launcher("environment", "RANK", ("WORLD_SIZE",), "LOCAL_RANK", "LOCAL_WORLD_SIZE"),
    _Launcher("openmpi", "OMPI_COMM_WORLD_RANK", ("OMPI_COMM_WORLD_SIZE",),
              "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE"),
    _Launcher("pmi", "PMI_RANK", ("PMI_SIZE",), "MPI_LOCALRANKID", "MPI_LOCALNRANKS"),
    _Launcher("slurm", "SLURM_PROCID", ("SLURM_STEP_NUM_TASKS", "SLURM_NTASKS"),
              "SLURM_LOCALID", "SLURM_NTASKS_PER_NODE"),
    _Launcher("pmix", "PMIX_RANK", ("WORLD_SIZE",), "LOCAL_RANK", "LOCAL_WORLD_SIZE"),
)


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
    source, rank, size = _identity(env)
    if (rank is None and size is None) or (source == "slurm" and _slurm_step(env) is None):
        return None
    rank, size = _whole(rank, size)
    return Launched(rank, size, source, _by_name(source).rank)


def local_place(env: Mapping[str, str]) -> Tuple[Optional[int], Optional[int]]:
    """(number of this rank among those of its host, how many they are); None: the launcher does not
    say."""
    source = _identity(env)[0]
    if source == "arguments":
        return None, None
    launcher = _by_name(source)
    return _number(env, launcher.local_rank), _number(env, launcher.local_size)


def _by_name(source: str) -> _Launcher:
    return next(each for each in _LAUNCHERS if each.name == source)


def detect(env: Mapping[str, str], rank: Optional[int] = None, world_size: Optional[int] = None,
           store: Optional[str] = None) -> Optional[LaunchEnvironment]:
    """Reads a launcher's variables; arguments that are not None go before them.

    Returns None when there is neither: a world of one process. Raises InvalidArgument naming what
    is missing when there is only a part.
    """
    source, found_rank, found_size = _identity(env)
    rank = found_rank if rank is None else rank
    world_size = found_size if world_size is None else world_size
    if rank is None and world_size is None:
        return None
    rank, world_size = _whole(rank, world_size)
    torch_store = False
    if store is None:
        store, torch_store = _rendezvous_address(env, source, world_size, rank)
    return LaunchEnvironment(rank, world_size, store, source, _job(env, source), torch_store)


def _whole(rank: Optional[int], world_size: Optional[int]) -> Tuple[int, int]:
    """Both, or InvalidArgument that names the missing one or why they do not fit together."""
    if rank is None or world_size is None:
        have, want, variable = (
            (f"world_size={world_size}", "rank", "RANK") if rank is None
            else (f"rank={rank}", "world_size", "WORLD_SIZE"))
        raise InvalidArgument(f"{have} is known, but not the {want}: pass {want}= or set "
                              f"{variable}, or start the program with `nezha run -n N`")
    if world_size < 1 or not 0 <= rank < world_size:
        raise InvalidArgument(f"rank {rank} of {world_size}: ranks go from 0 to world_size-1")
    return rank, world_size


def _identity(env: Mapping[str, str]) -> Tuple[str, Optional[int], Optional[int]]:
    """(launcher, rank, world size) of the first launcher that set both; else what there is."""
    partial: Tuple[str, Optional[int], Optional[int]] = ("arguments", None, None)
    for launcher in _LAUNCHERS:
        rank = _number(env, launcher.rank)
        sizes = [_number(env, each) for each in launcher.sizes if each in env]
        if rank is not None and sizes:
            return _who_started(env, launcher.name, rank, sizes[0]), rank, sizes[0]
        if partial[1] is None and rank is not None:
            partial = (launcher.name, rank, None)
    if partial[1] is None and "WORLD_SIZE" in env:
        return "environment", None, _number(env, "WORLD_SIZE")
    return partial


def _who_started(env: Mapping[str, str], name: str, rank: int,
                 size: Optional[int]) -> str:
    """"slurm" for tasks to which srun itself speaks PMI (srun --mpi=pmi2), else `name`."""
    same = (_number(env, "SLURM_PROCID"), _number(env, "SLURM_STEP_NUM_TASKS")) == (rank, size)
    return "slurm" if name == "pmi" and same else name


def _number(env: Mapping[str, str], variable: str) -> Optional[int]:
    text = env.get(variable)
    if text is None:
        return None
    try:
        return int(text)
    except ValueError:
        raise InvalidArgument(f"{variable}={text!r} is not a number") from None


def meets_at_master(env: Mapping[str, str]) -> bool:
    """Whether the variables of torch say where ranks meet; torch's own process group may be there."""
    return not env.get("NEZHA_STORE") and bool(env.get("MASTER_ADDR") and env.get("MASTER_PORT"))


def _rendezvous_address(env: Mapping[str, str], source: str, world_size: int,
                   rank: int) -> Tuple[str, bool]:
    """(address of the store, whether torchrun already serves it)."""
    if env.get("NEZHA_STORE"):
        return env["NEZHA_STORE"], False
    address, port = env.get("MASTER_ADDR"), env.get("MASTER_PORT")
    if address and port:
        number = _number(env, "MASTER_PORT") or 0
        if not 1 <= number <= 65535:
            raise InvalidArgument(f"MASTER_PORT={port!r}: want 1 to 65535")
        if "TORCHELASTIC_RUN_ID" not in env:
            return _tcp(address, number), False
        served = env.get("TORCHELASTIC_USE_AGENT_STORE", "True") == "True"
        return _tcp(address, number if not served else _next_port(number)), served
    if world_size == 1:
        return "hash://single", False
    if source == "slurm":
        if _slurm_step(env) is None:
            raise InvalidArgument(f"SLURM_NTASKS={world_size}, but srun did not start this process: "
                                  "use `srun python ...` in the batch script, or pass rank= and "
                                  "world_size=")
        return _slurm_store(env, ("SLURM_STEP_NODELIST", "SLURM_JOB_NODELIST", "SLURM_NODELIST"),
                            _slurm_step(env) or 0), False
    if source in ("openmpi", "pmi") and "SLURM_JOB_ID" in env:
        # A step would be the one of mpirun's daemons, in which not every node takes part.
        return _slurm_store(env, ("SLURM_JOB_NODELIST", "SLURM_NODELIST"), 0), False
    have = f"MASTER_ADDR={address}" if address else f"MASTER_PORT={port}" if port else "neither"
    hint = {"openmpi": " (mpirun -x MASTER_ADDR=HOST_OF_RANK_0 -x MASTER_PORT=29500)",
            "pmi": " (mpiexec -env MASTER_ADDR HOST_OF_RANK_0 -env MASTER_PORT 29500)"}
    raise InvalidArgument(
        f"rank {rank} of {world_size} does not know where to meet the others: set MASTER_ADDR and "
        f"MASTER_PORT{hint.get(source, '')} or NEZHA_STORE, or pass store=; {have} is set")


def _tcp(host: str, port: int) -> str:
    return f"tcp://[{host}]:{port}" if ":" in host else f"tcp://{host}:{port}"


def _next_port(port: int) -> int:
    return port + 1 if port < 65535 else port - 1


def _slurm_step(env: Mapping[str, str]) -> Optional[int]:
    """Number of srun's step; None in a batch script, which has a SLURM_PROCID all the same."""
    step = _number(env, "SLURM_STEP_ID")
    return _number(env, "SLURM_STEPID") if step is None else step


def _slurm_store(env: Mapping[str, str], lists: Tuple[str, ...], step: int) -> str:
    """The first host of the first list that is set, where Slurm and mpirun put rank 0."""
    nodes = next((env[name] for name in lists if env.get(name)), None)
    if nodes is None:
        raise InvalidArgument("Slurm's variables are set, but SLURM_NODELIST is not: start with "
                              "srun, or set MASTER_ADDR and MASTER_PORT")
    job = _number(env, "SLURM_JOB_ID") or _number(env, "SLURM_JOBID") or 0
    port = _SLURM_PORT_BASE + (job * 31 + step) % _SLURM_PORT_COUNT
    return _tcp(expand_node_list(nodes)[0], port)


def _job(env: Mapping[str, str], source: str) -> Optional[str]:
    """A name that the ranks of this start share, and those of other starts do not."""
    if env.get("NEZHA_JOB"):
        return env["NEZHA_JOB"]
    if "TORCHELASTIC_RUN_ID" in env:
        return f"{env['TORCHELASTIC_RUN_ID']}.{env.get('TORCHELASTIC_RESTART_COUNT', '0')}"
    if source == "openmpi" and env.get("PMIX_NAMESPACE"):
        return env["PMIX_NAMESPACE"]
    if source in ("openmpi", "pmi"):  # ranks may differ in what their daemons inherited
        return None
    if "SLURM_JOB_ID" in env and "SLURM_PROCID" in env:
        return f"slurm{env['SLURM_JOB_ID']}.{_slurm_step(env) or 0}"
    return None


def expand_node_list(text: str, limit: int = 65536) -> List[str]:
    """Hosts of a Slurm node list: ``"a[1-3,07],b"`` is a1, a2, a3, a07, b.

    Several brackets in one name multiply. Raises InvalidArgument when the text is no node list, or
    names more than `limit` hosts.
    """
    hosts: List[str] = []
    for item in _split_outside_brackets(text):
        expanded = [""]
        rest = item
        while rest:
            head, bracket, rest = rest.partition("[")
            expanded = [prefix + head for prefix in expanded]
            if not bracket:
                break
            inside, closing, rest = rest.partition("]")
            if not closing:
                raise InvalidArgument(f"node list {text!r}: a bracket is not closed")
            numbers = _expand_ranges(inside, text, limit)
            if len(hosts) + len(expanded) * len(numbers) > limit:
                raise InvalidArgument(f"node list {text!r} names more than {limit} hosts")
            expanded = [prefix + number for prefix in expanded for number in numbers]
        hosts += expanded
    if not hosts:
        raise InvalidArgument("the node list is empty")
    return hosts


def _split_outside_brackets(text: str) -> List[str]:
    items, depth, current = [], 0, ""
    for character in text:
        depth += (character == "[") - (character == "]")
        if character == "," and depth == 0:
            items.append(current)
            current = ""
        else:
            current += character
    items.append(current)
    return [item.strip() for item in items if item.strip()]


def _expand_ranges(inside: str, text: str, limit: int) -> List[str]:
    numbers: List[str] = []
    for part in inside.split(","):
        low, dash, high = part.strip().partition("-")
        if not low.isdecimal() or (dash and not high.isdecimal()):
            raise InvalidArgument(f"node list {text!r}: {part!r} is no number and no range")
        first, last = int(low), int(high) if dash else int(low)
        if last < first or last - first >= limit:
            raise InvalidArgument(f"node list {text!r}: the range {part!r} is empty or too long")
        numbers += [str(number).zfill(len(low)) for number in range(first, last + 1)]
    return numbers
