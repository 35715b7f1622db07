"""The Backend (torch 2.14 and later): one group's operations on the CPU and on CUDA devices."""

from __future__ import annotations

import datetime
import os
from typing import Any, List, Optional, Sequence, Set

import torch
import torch.distributed as dist
from torch._C import _distributed_c10d as c10d

from .. import errors
from . import _connect, _native, _reconfigure
from ._group import Group

_Base = getattr(dist, "BackendBase", None) or c10d.Backend


class NezhaBackend(Group, _Base):
    """What a ProcessGroup calls; see Collectives for the operations and Group for the rest."""

    def __init__(self, comm: Any, store: Any, rank: int, world: int, options: Any,
                 name: str = "nezha") -> None:
        _Base.__init__(self, rank, world)
        Group.__init__(self, comm, store, options._timeout, name)
        self._options = options

    @property
    def options(self) -> Any:
        """torch's Backend.Options of the group."""
        return self._options

    @property
    def supports_splitting(self) -> bool:
        """Sub-groups use the connections of their parent."""
        return True

    @property
    def supports_coalescing(self) -> bool:
        """Sends and receives start at once; a batch needs no bracket."""
        return False

    @property
    def supports_reconfigure(self) -> bool:
        """The members of a group can be replaced."""
        return True

    def split(self, store: Any, ranks: Sequence[int], opts: Any) -> Optional[Any]:
        """The group of `ranks` of this one, in that order; None at the others (see build_native)."""
        self._check_open()
        members = [int(rank) for rank in ranks]
        if self._comm.rank not in members:
            if _native.available():
                return None
            # torch's own trampoline would follow the null pointer that None becomes.
            raise errors.Unsupported(
                f"split_group: rank {self._comm.rank} is in no part; torch {torch.__version__} takes "
                "that answer from compiled backends only: call nezha.torch.build_native() once, give "
                "every rank a part, or use new_group")
        options = opts if opts is not None else make_options(self._name, self._options._timeout)
        above = list(self._options.global_ranks_in_group) or list(range(self._comm.world_size))
        options.global_ranks_in_group = [above[rank] for rank in members]
        comm = self._comm.create_group(members, options.group_name)
        return _for_torch(NezhaBackend(comm, store, comm.rank, comm.world_size, options, self._name))

    def shutdown(self) -> None:
        """As Group.shutdown."""
        super().shutdown()
        _held.discard(self)

    def get_reconfigure_handle(self) -> str:
        """Where the other members of a future group can reach this rank."""
        return self._open_reconfigure_store().handle

    def current_rank(self) -> int:
        """This rank among the members of now, which reconfigure() may have changed."""
        return int(self._comm.rank)

    def current_size(self) -> int:
        """How many members there are now."""
        return int(self._comm.world_size)

    def reconfigure(self, opts: Any) -> Any:
        """Replaces the members; see reconfigure.py."""
        return _reconfigure.reconfigure(self, opts)


def make_options(name: str, timeout: datetime.timedelta) -> Any:
    """Backend.Options."""
    return c10d.Backend.Options(name, timeout)


def create(opts: Any, given: Any, name: str = "nezha") -> Any:
    """The creator that torch calls. opts: DistributedBackendOptions; given: pg_options or None."""
    options = given if isinstance(given, c10d.Backend.Options) else make_options(name, opts.timeout)
    ranks: List[int] = list(opts.global_ranks_in_group)
    options._timeout = opts.timeout
    options.global_ranks_in_group = ranks
    options.group_name = opts.group_id
    comm = None
    if not getattr(opts, "enable_reconfigure", False):
        comm = _connect.open_communicator(opts.store, opts.group_rank, opts.group_size, opts.timeout,
                                        ranks, opts.group_id)
    return _for_torch(NezhaBackend(comm, opts.store, opts.group_rank, opts.group_size, options, name))


# torch's wrapper for TORCH_DISTRIBUTED_DEBUG=DETAIL holds the C++ half of a backend and not the object in
# Python, which the next collection of garbage would take away. So they are held here.
_held: Set[NezhaBackend] = set()


def _for_torch(backend: NezhaBackend) -> Any:
    if _is_wrapped() and not _native.available():
        known = set(dist.distributed_c10d._world.pg_names.values())
        _held.difference_update([each for each in _held if each.options.group_name not in known])
        _held.add(backend)
    return _native.wrap(backend)


def _is_wrapped() -> bool:
    # torch asks the same: the level is the variable's at the import.
    return (dist.get_debug_level() == dist.DebugLevel.DETAIL
            or os.environ.get("TORCH_DISTRIBUTED_DEBUG") == "DETAIL")
