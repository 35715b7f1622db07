"""What a failed operation does to those who are built on it."""

from __future__ import annotations

import datetime

import torch
import torch.distributed as dist
from support import fresh, raises


def absent_in_backward() -> None:
    """DDP's backward raises when a rank does not come; it must not take tensors from the error."""
    from torch.nn.parallel import DistributedDataParallel

    group = fresh(timeout=datetime.timedelta(seconds=5))
    wrapped = DistributedDataParallel(torch.nn.Linear(4, 4), process_group=group)
    loss = wrapped(torch.ones(2, 4)).sum()
    if dist.get_rank() != dist.get_world_size() - 1:
        raises(RuntimeError, "timed out after", loss.backward)
    dist.barrier()


def failed_future() -> None:
    """A future of a failed operation raises in Python, at its users and at theirs."""
    group = fresh(timeout=datetime.timedelta(seconds=1))
    if dist.get_rank() == 0:
        future = dist.all_reduce(torch.ones(4), group=group, async_op=True).get_future()
        raises(RuntimeError, "timed out after", future.wait)
        raises(RuntimeError, "timed out after", future.then(lambda done: done.value()).wait)
    dist.barrier()
