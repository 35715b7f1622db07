"""nezha.init: from a process that a launcher started to a connected communicator."""

from __future__ import annotations

import os
from typing import Any, Mapping, Optional, Tuple, Union

from .. import launch_environment
from . import interruptible, mpi as mpi_ranks, stores
from ..communicator import Communicator
from ..errors import InvalidArgument


def init(rank: Optional[int] = None, world_size: Optional[int] = None,
         store: Union[str, Any, None] = None, *, mpi: Any = None,
         timeout: Optional[float] = None, rails: Optional[str] = None,
         policy: Optional[str] = None, job: Optional[str] = None,
         config: Optional[Mapping[str, Any]] = None) -> Communicator:
    """Joins the job and returns the communicator of all its ranks. Collective: all ranks call it.

    rank, world_size: default to what the launcher set: RANK and WORLD_SIZE (`nezha run`, torchrun),
        SLURM_PROCID and SLURM_NTASKS, OMPI_COMM_WORLD_*, PMI_*; without any, a world of one.
    store: where the ranks meet: "tcp://HOST:PORT", "file:///DIRECTORY" (one all ranks see),
        "redis[s]://[USER:PASSWORD@]HOST:PORT/0", "hash://NAME" (ranks that are threads), or an
        object with the methods of a torch.distributed store. Defaults to NEZHA_STORE, else
        MASTER_ADDR:MASTER_PORT, else the first host of the Slurm job. Under torchrun, whose own
        store sits on MASTER_PORT, that store is used, or MASTER_PORT+1 where torch is missing.
    mpi: an mpi4py communicator, instead of all three: its ranks are the ranks. Only meeting goes
        through MPI.
    timeout: seconds for meeting and, by default, for each operation.
    rails: devices to use, such as "eth0,eth1", "^docker" or "10.1.0.0/16"; default: all usable.
    policy: how bytes are shared among rails: "pull", "table", "static" or "round_robin".
    job: prefix of the keys in the store. Jobs that share a store at one time need different ones.
    config: any other option of `nezha info --config`, such as {"chunk_bytes": "1M"}.

    Raises InvalidArgument naming what is missing or wrong, TimedOut naming the ranks that did not
    come, Mismatch when the ranks were configured differently.
    """
    if timeout is not None and not timeout > 0:
        raise InvalidArgument("timeout must be a positive number of seconds, or None")
    for name, value in (("rank", rank), ("world_size", world_size)):
        if value is not None and not hasattr(value, "__index__"):
            raise InvalidArgument(f"{name} is {value!r}: pass a whole number, not {type(value).__name__}")
    if config is not None and not isinstance(config, Mapping):
        raise InvalidArgument(f"config is {type(config).__name__}: pass a mapping of option to value, "
                              "such as {'chunk_bytes': '1M'}")
    text = config_text(config, (("rails", rails), ("policy", policy)))
    if mpi is not None:
        if (rank, world_size, store) != (None, None, None):
            raise InvalidArgument("mpi= brings rank, world_size and store: pass none of them")
        mpi_rank, mpi_size = mpi_ranks.rank_and_size(mpi)
        return interruptible.connect(mpi_rank, mpi_size, None, None, job, timeout or 0.0, text, mpi)
    address = store if isinstance(store, str) else None
    store_object = None if store is None or address is not None else stores.adapt(store)
    found = launch_environment.detect(os.environ, rank, world_size,
                                      address or ("python" if store_object is not None else None))
    if found is None:
        found = launch_environment.LaunchEnvironment(0, 1, address or "hash://single", "single")
    address = found.store
    if store is None and launch_environment.meets_at_master(os.environ):
        served = (stores.torchrun_store(os.environ, timeout) if found.torch_store
                  else stores.process_group_store(found.rank, found.world_size))
        store_object = None if served is None else stores.adapt(served)
    return interruptible.connect(found.rank, found.world_size,
                                 None if store_object is not None else address, store_object,
                                 job or found.job, timeout or 0.0, text)


def config_text(config: Optional[Mapping[str, Any]],
                shorthands: Tuple[Tuple[str, Optional[str]], ...]) -> str:
    """The "key=value" lines of nezha.h. Raises InvalidArgument on what cannot be said in them."""
    values = dict(config or {})
    for name, value in shorthands:
        if value is None:
            continue
        if name in values:
            raise InvalidArgument(f"{name} is given twice: as an argument and in config")
        values[name] = value
    lines = []
    for name, value in values.items():
        line = f"{name}={value}"
        if "\n" in line or "=" in name:
            raise InvalidArgument(f"config[{name!r}] = {value!r}: names without '=' and values of "
                                  "one line only")
        lines.append(line)
    return "\n".join(lines)
