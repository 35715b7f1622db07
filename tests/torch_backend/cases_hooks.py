"""Torch's own communication hooks, most of which wait or compute in callbacks: what several ranks learn
with them is what one process learns from all of their data. All ranks run each function."""

from __future__ import annotations

from typing import Any, Callable, List

import torch
import torch.distributed as dist
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks
from torch.nn.parallel import DistributedDataParallel

_STEPS = 6
_LEARNING = 0.05


def _network() -> torch.nn.Module:
    torch.manual_seed(3)
    return torch.nn.Sequential(torch.nn.Linear(40, 60), torch.nn.Tanh(), torch.nn.Linear(60, 40))


def _sample(rank: int, step: int) -> torch.Tensor:
    return torch.randn(1, 40, generator=torch.Generator().manual_seed(100 * step + rank))


def _loss(network: torch.nn.Module, data: torch.Tensor) -> torch.Tensor:
    loss: torch.Tensor = (network(data) - data.cos()).square().mean()
    return loss


def _parameters(network: torch.nn.Module) -> List[torch.Tensor]:
    return [parameter.detach().clone() for parameter in network.parameters()]


def _alone(steps: range) -> List[torch.Tensor]:
    """What one process learns from the data of all ranks in these steps."""
    network = _network()
    optimizer = torch.optim.SGD(network.parameters(), lr=_LEARNING)
    for step in steps:
        optimizer.zero_grad()
        samples = [_sample(rank, step) for rank in range(dist.get_world_size())]
        _loss(network, torch.cat(samples)).backward()
        optimizer.step()
    return _parameters(network)


def _together(network: torch.nn.Module, step_after: Callable[[], Any]) -> None:
    for step in range(_STEPS):
        network.zero_grad()
        _loss(network, _sample(dist.get_rank(), step)).backward()
        step_after()


def _agree(found: List[torch.Tensor], expected: List[torch.Tensor], tolerance: float) -> None:
    for mine, theirs, first in zip(found, expected, _parameters(_network())):
        assert (theirs - first).abs().max() > 10 * tolerance, "training changes more than is tolerated"
        assert torch.allclose(mine, theirs, 0, tolerance), (mine - theirs).abs().max()


def _trained(hook: Any, state: Any = None, **options: Any) -> List[torch.Tensor]:
    wrapped = DistributedDataParallel(_network(), **options)
    wrapped.register_comm_hook(state, hook)
    _together(wrapped, torch.optim.SGD(wrapped.parameters(), lr=_LEARNING).step)
    return _parameters(wrapped.module)


def power_sgd() -> None:
    """The gradients of three samples have rank three, so compression to that rank loses nothing."""
    from torch.distributed.algorithms.ddp_comm_hooks import powerSGD_hook

    for batched in (False, True):
        state = powerSGD_hook.PowerSGDState(
            None, matrix_approximation_rank=dist.get_world_size(), start_powerSGD_iter=2,
            min_compression_rate=1, batch_tensors_with_same_shape=batched)
        _agree(_trained(powerSGD_hook.powerSGD_hook, state), _alone(range(_STEPS)), 1e-4)
        assert state.iter == _STEPS and state.p_memory_dict, "it compressed"


def of_half_precision() -> None:
    """Several buckets, gradients sent in 16 bits."""
    for hook in (default_hooks.fp16_compress_hook, default_hooks.bf16_compress_hook):
        _agree(_trained(hook, bucket_cap_mb=0.001), _alone(range(_STEPS)), 1e-4)
    wrapped = default_hooks.fp16_compress_wrapper(default_hooks.allreduce_hook)
    _agree(_trained(wrapped, bucket_cap_mb=0.001), _alone(range(_STEPS)), 1e-4)


def zero_overlapped() -> None:
    """The optimizer's steps, and broadcasts of what it changed, begin before all gradients are there."""
    from torch.distributed.algorithms.ddp_comm_hooks import ddp_zero_hook
    from torch.distributed.optim import ZeroRedundancyOptimizer

    wrapped = DistributedDataParallel(_network(), bucket_cap_mb=0.001)
    zero = ZeroRedundancyOptimizer(wrapped.parameters(), optimizer_class=torch.optim.SGD,
                                   overlap_with_ddp=True, lr=_LEARNING)
    wrapped.register_comm_hook(
        None, ddp_zero_hook.hook_with_zero_step(default_hooks.allreduce_hook, wrapped, zero))
    first, learned = _parameters(wrapped.module), []

    def count() -> None:
        learned.append(any(not torch.equal(now, then)
                           for now, then in zip(_parameters(wrapped.module), first)))

    _together(wrapped, count)
    skipped = learned.index(True)  # torch's steps of preparation
    _agree(_parameters(wrapped.module), _alone(range(skipped, _STEPS)), 1e-5)


def zero() -> None:
    """The optimizer's state is divided among the ranks."""
    from torch.distributed.optim import ZeroRedundancyOptimizer

    wrapped = DistributedDataParallel(_network())
    optimizer = ZeroRedundancyOptimizer(wrapped.parameters(), optimizer_class=torch.optim.SGD,
                                        lr=_LEARNING)
    _together(wrapped, optimizer.step)
    _agree(_parameters(wrapped.module), _alone(range(_STEPS)), 1e-5)
    optimizer.consolidate_state_dict(0)


def post_local_sgd() -> None:
    """Each rank steps alone and the parameters are averaged: with plain SGD in each step, the same."""
    from torch.distributed.algorithms.ddp_comm_hooks import post_localSGD_hook
    from torch.distributed.algorithms.model_averaging.averagers import PeriodicModelAverager
    from torch.distributed.optim import PostLocalSGDOptimizer

    alone, _ = dist.new_subgroups(group_size=1)
    state = post_localSGD_hook.PostLocalSGDState(None, alone, start_localSGD_iter=2)
    wrapped = DistributedDataParallel(_network(), bucket_cap_mb=0.001)
    wrapped.register_comm_hook(state, post_localSGD_hook.post_localSGD_hook)
    optimizer = PostLocalSGDOptimizer(torch.optim.SGD(wrapped.parameters(), lr=_LEARNING),
                                      PeriodicModelAverager(period=1, warmup_steps=2))
    _together(wrapped, optimizer.step)
    _agree(_parameters(wrapped.module), _alone(range(_STEPS)), 1e-5)


def joined() -> None:
    """Ranks with fewer batches leave DDP's loop early, and the others go on with zeros in their place."""
    from torch.distributed.algorithms.join import Join

    wrapped = DistributedDataParallel(_network(), bucket_cap_mb=0.001)
    optimizer = torch.optim.SGD(wrapped.parameters(), lr=_LEARNING)
    with Join([wrapped]):
        for step in range(2 + dist.get_rank()):
            optimizer.zero_grad()
            _loss(wrapped, _sample(dist.get_rank(), step)).backward()
            optimizer.step()
    everywhere = [None] * dist.get_world_size()
    sums = [parameter.sum().item() for parameter in _parameters(wrapped.module)]
    dist.all_gather_object(everywhere, sums)
    assert all(each == everywhere[0] for each in everywhere)
