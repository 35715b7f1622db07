"""What trains on top: DDP, FSDP2, checkpoints, hooks; the same numbers as with Gloo."""

from __future__ import annotations

from typing import Any, List

import torch
import torch.distributed as dist
from support import agree, gloo

import nezha
from nezha.torch import ddp_hook


def model() -> torch.nn.Module:
    """The same small network on every rank."""
    torch.manual_seed(1)
    return torch.nn.Sequential(torch.nn.Linear(20, 30), torch.nn.ReLU(), torch.nn.Linear(30, 5))


def batch() -> torch.Tensor:
    """Another one on every rank."""
    return torch.randn(8, 20, generator=torch.Generator().manual_seed(dist.get_rank()))


def trained(network: torch.nn.Module, steps: int = 3) -> List[torch.Tensor]:
    """The parameters after some steps."""
    optimizer = torch.optim.SGD(network.parameters(), lr=0.1)
    for _ in range(steps):
        optimizer.zero_grad()
        network(batch()).square().mean().backward()
        optimizer.step()
    return [parameter.detach() for parameter in network.parameters()]


def ddp() -> None:
    """Small buckets, unused parameters, a hook; each as with Gloo."""
    from torch.nn.parallel import DistributedDataParallel

    def run(group: Any, hook: bool = False, **options: Any) -> List[torch.Tensor]:
        wrapped = DistributedDataParallel(model(), process_group=group, **options)
        if hook:
            wrapped.register_comm_hook(None, ddp_hook)
        return trained(wrapped)

    reference = run(gloo(), bucket_cap_mb=0.001)
    for found in (run(dist.group.WORLD, bucket_cap_mb=0.001), run(dist.group.WORLD),
                  run(dist.group.WORLD, find_unused_parameters=True),
                  run(dist.group.WORLD, gradient_as_bucket_view=True, static_graph=True),
                  run(gloo(), hook=True)):
        for mine, theirs in zip(found, reference):
            agree(mine, theirs)


def hook_with_communicator(directory: str) -> None:
    """The hook's state may be a communicator that knows nothing of torch's groups."""
    from torch.nn.parallel import DistributedDataParallel

    with nezha.init(dist.get_rank(), dist.get_world_size(), f"file://{directory}",
                    job="gradients") as comm:
        wrapped = DistributedDataParallel(model(), process_group=gloo())
        wrapped.register_comm_hook(comm, ddp_hook)
        before = comm.stats()["operations_begun"]
        found = trained(wrapped)
        assert comm.stats()["operations_begun"] > before
    reference = trained(DistributedDataParallel(model(), process_group=gloo()))
    for mine, theirs in zip(found, reference):
        agree(mine, theirs)


def fsdp2(directory: str) -> None:
    """fully_shard on the CPU learns what DDP learns, and its checkpoint comes back."""
    import torch.distributed.checkpoint as dcp
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard
    from torch.nn.parallel import DistributedDataParallel

    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    network = model()
    for layer in network:
        if isinstance(layer, torch.nn.Linear):
            fully_shard(layer, mesh=mesh)
    fully_shard(network, mesh=mesh)
    found = [parameter.full_tensor() for parameter in trained(network)]
    reference = trained(DistributedDataParallel(model(), process_group=gloo()))
    for mine, theirs in zip(found, reference):
        agree(mine, theirs)
    state = {"model": network.state_dict()}
    dcp.save(state, checkpoint_id=directory)
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.zero_()
    dcp.load(state, checkpoint_id=directory)
    for parameter, kept in zip(network.parameters(), found):
        agree(parameter.full_tensor().detach(), kept)


def functional() -> None:
    """Functional collectives, whose results are waited for when used."""
    import torch.distributed._functional_collectives as funcol

    world, rank = dist.get_world_size(), dist.get_rank()
    group = list(range(world))
    agree(funcol.all_reduce(torch.ones(3), "sum", group) + 0, torch.full((3,), float(world)))
    gathered = funcol.all_gather_tensor(torch.full((2,), float(rank)), 0, group) + 0
    agree(gathered, torch.arange(float(world)).repeat_interleave(2))
    scattered = funcol.reduce_scatter_tensor(torch.ones(2 * world), "avg", 0, group) + 0
    agree(scattered, torch.ones(2))
    exchanged = funcol.all_to_all_single(torch.full((world,), float(rank)), None, None, group) + 0
    agree(exchanged, torch.arange(float(world)))
    several = funcol.all_reduce_coalesced([torch.ones(1), torch.ones(2)], "sum", group)
    for tensor in several:
        agree(tensor + 0, torch.full(tensor.shape, float(world)))
