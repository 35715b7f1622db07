"""What runs under TORCH_DISTRIBUTED_DEBUG=DETAIL. All ranks run each function."""

from __future__ import annotations

import gc
import importlib

import torch
import torch.distributed as dist
from support import fresh

from nezha.torch import _backend, communicator


def collected() -> None:
    """The default group and later ones work after the garbage was collected."""
    assert type(dist.group.WORLD._get_backend(torch.device("cpu"))).__name__ == "_ProcessGroupWrapper"
    group = fresh()
    for each in (group, None):
        for _ in range(3):
            gc.collect()
            tensor = torch.ones(3)
            dist.all_reduce(tensor, group=each)
            assert tensor.tolist() == [dist.get_world_size()] * 3
        assert communicator(each).world_size == dist.get_world_size()
    dist.destroy_process_group(group)


def let_go() -> None:
    """Nothing of a destroyed group stays, and of an aborted one nothing after the next was made."""
    before = len(_backend._held)
    for _ in range(3):
        group = fresh()
        dist.barrier()  # torch's Gloo, which the wrapper adds, fails beside others that end theirs
        dist.destroy_process_group(group)
        assert len(_backend._held) == before
    for _ in range(3):
        aborted = fresh()
        dist.barrier()
        dist.distributed_c10d._abort_process_group(aborted)
        assert len(_backend._held) == before + 1
    group = fresh()
    dist.barrier()
    dist.destroy_process_group(group)
    assert len(_backend._held) == before


def collecting(module: str, case: str) -> None:
    """A case of another file between collections."""
    gc.collect()
    getattr(importlib.import_module(module), case)()
    gc.collect()
