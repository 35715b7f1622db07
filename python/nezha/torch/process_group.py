"""The ProcessGroup (torch 2.7 to 2.13, whose backends cannot be written in Python)."""

from __future__ import annotations

from typing import Any, Sequence

import torch.distributed as dist

from . import groups
from .group import Group


class NezhaProcessGroup(Group, dist.ProcessGroup):
    """Replaces torch's group as a whole; see Collectives for the operations."""

    def __init__(self, comm: Any, store: Any, timeout: Any, ranks: Sequence[int]) -> None:
        dist.ProcessGroup.__init__(self, comm.rank, comm.world_size)
        Group.__init__(self, comm, store, timeout, "nezha")
        self._ranks = list(ranks)

    def _get_backend(self, device: Any) -> "NezhaProcessGroup":
        """Itself, for every device: there is no Backend below it."""
        del device
        return self


def create(opts: Any, given: Any) -> NezhaProcessGroup:
    """The creator that torch calls."""
    del given
    ranks = list(opts.global_ranks_in_group)
    comm = groups.open_communicator(opts.store, opts.group_rank, opts.group_size, opts.timeout,
                                    ranks, opts.group_id)
    return NezhaProcessGroup(comm, opts.store, opts.timeout, ranks)
