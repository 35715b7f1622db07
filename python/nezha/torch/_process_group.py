"""The ProcessGroup (torch 2.7 to 2.13, whose backends cannot be written in Python)."""

from __future__ import annotations

import datetime
from typing import Any, Sequence

import torch
import torch.distributed as dist
from torch._C import _distributed_c10d as c10d

from . import _connect
from ._group import Group
from ._work import Done, Work


class NezhaProcessGroup(Group, dist.ProcessGroup):
    """Replaces torch's group as a whole; see Collectives for the operations."""

    def __init__(self, comm: Any, store: Any, timeout: datetime.timedelta, name: str) -> None:
        dist.ProcessGroup.__init__(self, comm.rank, comm.world_size)
        Group.__init__(self, comm, store, timeout, "nezha")
        self.options = c10d.Backend.Options("nezha", timeout)
        self._group_name = name
        self._group_desc = ""

    @property
    def group_name(self) -> str:
        """Under which torch finds the group; torch's own property asks a Backend."""
        return self._group_name

    @property
    def group_desc(self) -> str:
        """What the group's maker says of it."""
        return self._group_desc

    def getGroupName(self) -> str:  # noqa: N802 (what C++ calls)
        """group_name."""
        return self._group_name

    def setGroupName(self, name: str) -> None:  # noqa: N802
        """Sets group_name."""
        self._group_name = name

    def getGroupDesc(self) -> str:  # noqa: N802
        """group_desc."""
        return self._group_desc

    def setGroupDesc(self, description: str) -> None:  # noqa: N802
        """Sets group_desc."""
        self._group_desc = description

    def _handle_of_over(self, tensors: Sequence[torch.Tensor]) -> Work:
        return Done(tensors)  # torch before 2.14 and torchft take no None

    def _get_backend(self, device: Any) -> "NezhaProcessGroup":
        """Itself, for every device: there is no Backend below it."""
        del device
        return self


def create(opts: Any, given: Any) -> NezhaProcessGroup:
    """The creator that torch calls."""
    del given
    comm = _connect.open_communicator(opts.store, opts.group_rank, opts.group_size, opts.timeout,
                                    list(opts.global_ranks_in_group), opts.group_id)
    return NezhaProcessGroup(comm, opts.store, opts.timeout, opts.group_id)
