"""Tensors of a CUDA device, which all ranks share: the same results as with the host's tensors."""

from __future__ import annotations

from typing import Any, Callable, List

import torch
import torch.distributed as dist
from support import flat, values

CUDA = torch.device("cuda", 0)
_SLEEP = 100_000_000  # cycles: longer than a caller needs to call what follows


def _both(program: Callable[[torch.device], Any]) -> None:
    """Runs it with tensors of the host and of the device; all bits must agree."""
    expected, found = flat(program(torch.device("cpu"))), flat(program(CUDA))
    assert len(found) == len(expected) > 0
    for mine, theirs in zip(found, expected):
        assert mine.device == CUDA
        assert torch.equal(mine.cpu(), theirs), f"{mine} is not {theirs}"


def collectives() -> None:
    """One form of each, and of the dtypes that a network adds up itself."""
    world, rank = dist.get_world_size(), dist.get_rank()

    def reduced(device: torch.device) -> List[torch.Tensor]:
        dtypes = (torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int32, torch.uint8)
        tensors = [values(dtype, 1000, 3).to(device) for dtype in dtypes]
        for tensor in tensors:
            dist.all_reduce(tensor)
        strided = values(torch.float32, 60, 40).to(device).t()
        dist.all_reduce(strided, dist.ReduceOp.MAX)
        return [*tensors, strided]

    def moved(device: torch.device) -> List[torch.Tensor]:
        one = values(torch.float32, 5000).to(device)
        lists = [torch.empty_like(one) for _ in range(world)]
        gathered = one.new_empty(world * 5000)
        exchanged = one.new_empty(world * 700)
        shares = one.new_empty(400)
        dist.all_gather(lists, one)
        dist.all_gather_into_tensor(gathered, one)
        dist.all_to_all_single(exchanged, one[:world * 700])
        dist.reduce_scatter_tensor(shares, one[:world * 400])
        rooted = one.clone()
        dist.broadcast(rooted, 1)
        dist.reduce(one, 0)
        return [*lists, gathered, exchanged, shares, rooted, *([one] if rank == 0 else [])]

    def sent(device: torch.device) -> torch.Tensor:
        tensor = values(torch.float32, 3000).to(device)
        arrived = torch.empty_like(tensor)
        work = dist.isend(tensor, (rank + 1) % world)
        dist.recv(arrived, (rank - 1) % world)
        work.wait()
        return arrived

    for program in (reduced, moved, sent):
        _both(program)


def large() -> None:
    """Chunks, of which the last one is short."""
    def program(device: torch.device) -> torch.Tensor:
        tensor = values(torch.int32, 9_000_001).to(device)
        dist.all_reduce(tensor)
        return tensor

    _both(program)


def streams() -> None:
    """What a stream did before is in the operation, and what it does after wait() has the result."""
    world, rank = dist.get_world_size(), dist.get_rank()
    total = world * (world + 1) // 2
    for stream in (torch.cuda.default_stream(CUDA), torch.cuda.Stream(CUDA)):
        with torch.cuda.stream(stream):
            for elements in (10, 6_000_000):
                tensor = torch.zeros(elements, device=CUDA)
                torch.cuda._sleep(_SLEEP)
                tensor.fill_(rank + 1)
                work = dist.all_reduce(tensor, async_op=True)
                work.wait()
                doubled = tensor * 2
                tensor.zero_()
                assert (doubled == 2 * total).all()


def ddp() -> None:
    """All ranks have the same parameters, those of training on the host within rounding."""
    from cases_training import batch, model

    from torch.nn.parallel import DistributedDataParallel

    def trained(device: torch.device) -> torch.Tensor:
        network = DistributedDataParallel(model().to(device), bucket_cap_mb=0.001)
        optimizer = torch.optim.SGD(network.parameters(), lr=0.1)
        for _ in range(5):
            optimizer.zero_grad()
            network(batch().to(device)).square().mean().backward()
            optimizer.step()
        return torch.cat([parameter.detach().flatten() for parameter in network.parameters()])

    found = trained(CUDA)
    everywhere = [torch.empty_like(found) for _ in range(dist.get_world_size())]
    dist.all_gather(everywhere, found)
    assert all(torch.equal(other, found) for other in everywhere)
    assert torch.allclose(found.cpu(), trained(torch.device("cpu")), 1e-4, 1e-5)


def rate(megabytes: int) -> float:
    """GB/s of tensor in all_reduce, the best of five."""
    tensor = torch.zeros(megabytes << 18, device=CUDA)
    best = 0.0
    for _ in range(6):
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        dist.barrier()
        start.record()
        dist.all_reduce(tensor)
        end.record()
        end.synchronize()
        best = max(best, 4e-6 * tensor.numel() / start.elapsed_time(end))
    return best
