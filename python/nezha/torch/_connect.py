"""From what torch hands to a backend's creator to a Communicator.

Ranks meet in the creator's store, whatever store it is. A group inside a group that has connections
uses those, with no message and no store.
"""

from __future__ import annotations

from typing import Any, Optional, Sequence

import torch
import torch.distributed as dist

from .._startup import init
from .. import errors
from ._calls import Calls
from ._work import seconds_of

_JOB = "nezha"
_CPU = torch.device("cpu")


def connect(store: Any, rank: int, world: int, timeout: Any, job: str = _JOB) -> Any:
    """A Communicator of `world` ranks that meet in `store`. Collective."""
    return init.init(rank, world, store, timeout=seconds_of(timeout), job=job)


def implementation(group: Any) -> Optional[Calls]:
    """Nezha's object behind a ProcessGroup, a Backend or a wrapper of either; None: another's."""
    from . import _native

    if isinstance(group, Calls):
        return group
    if isinstance(group, dist.ProcessGroup):
        wrapper = getattr(dist.distributed_c10d, "_ProcessGroupWrapper", None)
        if wrapper is not None and isinstance(group, wrapper):
            return implementation(group.wrapped_pg)
        try:
            return implementation(group._get_backend(_CPU))
        except RuntimeError:  # it has none for the CPU
            return None
    wrapped = getattr(group, "wrapped_pg", None)
    if wrapped is not None:
        return implementation(wrapped)
    return _native.implementation(group)


def communicator(group: Any = None) -> Any:
    """The nezha.Communicator behind a group (None: the default one), for rails(), stats(), table().

    Raises InvalidArgument when the group is another backend's.
    """
    found = implementation(dist.distributed_c10d._get_default_group() if group is None else group)
    if found is None:
        raise errors.InvalidArgument("the group is not one of nezha: create it with "
                                     "init_process_group('nezha') or new_group(backend='nezha')")
    found._check_open()
    return found._comm


def parent_of(global_ranks: Sequence[int]) -> Optional[Calls]:
    """The default group's object, where a group of these ranks can use its connections.

    Depends only on what is equal on all ranks, so that all take the same way.
    """
    if not global_ranks or not dist.is_initialized():
        return None
    found = implementation(dist.distributed_c10d._get_default_group())
    if found is None or found._comm is None or max(global_ranks) >= found._comm.world_size:
        return None
    return found


def open_communicator(store: Any, rank: int, world: int, timeout: Any,
                      global_ranks: Sequence[int], name: str) -> Any:
    """The Communicator of a new group: over the default group's connections, or freshly met."""
    parent = parent_of(global_ranks)
    if parent is None:
        return connect(store, rank, world, timeout)
    parent._check_open()
    return parent._comm.create_group(list(global_ranks), name)
