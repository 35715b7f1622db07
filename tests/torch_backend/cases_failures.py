"""What a failed operation does to those who are built on it."""

from __future__ import annotations

import datetime
from typing import Any

import torch
import torch.distributed as dist
from support import fresh, raises


def _allow(group: Any, seconds: float) -> None:
    """For operations from now on. The group is made within its usual time."""
    group._get_backend(torch.device("cpu")).set_timeout(datetime.timedelta(seconds=seconds))


def absent_in_backward() -> None:
    """DDP's backward raises when a rank does not come; it must not take tensors from the error."""
    from torch.nn.parallel import DistributedDataParallel

    group = fresh()
    wrapped = DistributedDataParallel(torch.nn.Linear(4, 4), process_group=group)
    loss = wrapped(torch.ones(2, 4)).sum()
    _allow(group, seconds=1)
    if dist.get_rank() != dist.get_world_size() - 1:
        raises(RuntimeError, "timed out after", loss.backward)
    dist.barrier()


def failed_future() -> None:
    """A future of a failed operation raises in Python, at its users and at theirs."""
    group = fresh()
    _allow(group, seconds=1)
    if dist.get_rank() == 0:
        future = dist.all_reduce(torch.ones(4), group=group, async_op=True).get_future()
        raises(RuntimeError, "timed out after", future.wait)
        raises(RuntimeError, "timed out after", future.then(lambda done: done.value()).wait)
    dist.barrier()
