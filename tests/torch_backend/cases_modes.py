"""Every operation in every mode of torch, for tensors of several layouts and every way of waiting. All
ranks run each function."""

from __future__ import annotations

import contextlib
import warnings
from typing import Any, Callable, Dict, List, Tuple

import torch
import torch.distributed as dist

# What is called, with async_op, and (tensor, its values afterwards).
Started = Tuple[Callable[[bool], Any], List[Tuple[torch.Tensor, torch.Tensor]]]

MODES: Dict[str, Callable[[], Any]] = {
    "none": contextlib.nullcontext, "inference": torch.inference_mode, "no_grad": torch.no_grad,
    "autocast": lambda: torch.autocast("cpu"), "anomaly": torch.autograd.detect_anomaly,
    "profiler": lambda: torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]),
    "other_device": lambda: torch.device("meta")}
LAYOUTS: Dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "plain": torch.Tensor.clone,
    "turned": lambda values: values.t().contiguous().t(),
    "sliced": lambda values: values.repeat_interleave(2, 1)[:, ::2]}
WAYS = ("at_once", "inside", "outside", "future")


def _full(value: float, rows: int = 6) -> torch.Tensor:
    return torch.full((rows, 4), float(value), device="cpu")


def _operations(lay: Callable[[torch.Tensor], torch.Tensor]) -> List[Started]:
    rank, world = dist.get_rank(), dist.get_world_size()
    total, ranks = world * (world + 1) / 2, range(world)
    mine = lay(_full(rank + 1))
    every = torch.cat([_full(each + 1) for each in ranks])

    def outs() -> List[torch.Tensor]:
        return [lay(_full(0)) for _ in ranks]

    def several(tensors: List[torch.Tensor]) -> List[Tuple[torch.Tensor, torch.Tensor]]:
        return [(tensor, _full(each + 1)) for each, tensor in enumerate(tensors)]

    summed, cast, reduced = (lay(_full(rank + 1)) for _ in range(3))
    single, parts = lay(_full(0)), [lay(_full(each + 5)) for each in ranks]
    gathered, exchanged, listed, received = outs(), outs(), outs(), lay(_full(0))
    whole, turned, share = lay(every * 0), lay(_full(0, 2 * world)), lay(_full(0))
    first = rank == 0
    rows = lay(torch.cat([_full(rank + 1, 2) for _ in ranks]))

    def message(later: bool) -> Any:
        sent = dist.isend(mine, (rank + 1) % world)
        work = dist.irecv(received, (rank - 1) % world)
        sent.wait()
        return work if later else work.wait()

    return [
        (lambda later: dist.all_reduce(summed, async_op=later), [(summed, _full(total))]),
        (lambda later: dist.broadcast(cast, 1, async_op=later), [(cast, _full(2))]),
        (lambda later: dist.reduce(reduced, 0, async_op=later),
         [(reduced, _full(total if first else rank + 1))]),
        (lambda later: dist.all_gather(listed, mine, async_op=later), several(listed)),
        (lambda later: dist.all_gather_into_tensor(whole, mine, async_op=later), [(whole, every)]),
        (lambda later: dist.gather(mine, gathered if first else None, 0, async_op=later),
         several(gathered) if first else []),
        (lambda later: dist.scatter(single, parts if first else None, 0, async_op=later),
         [(single, _full(rank + 5))]),
        (lambda later: dist.reduce_scatter_tensor(share, lay(every), async_op=later),
         [(share, _full(world * (rank + 1)))]),
        (lambda later: dist.all_to_all(exchanged, [mine for _ in ranks], async_op=later),
         several(exchanged)),
        (lambda later: dist.all_to_all_single(turned, rows, async_op=later),
         [(turned, torch.cat([_full(each + 1, 2) for each in ranks]))]),
        (message, [(received, _full((rank - 1) % world + 1))])]


def mode(name: str) -> None:
    """Results arrive in the mode, and after it was left."""
    for layout, lay in LAYOUTS.items():
        for way in WAYS:
            with MODES[name]():
                begun = [(call(way != "at_once"), after) for call, after in _operations(lay)]
                if way == "inside":
                    _finish(work for work, _ in begun)
            if way == "outside":
                _finish(work for work, _ in begun)
            elif way == "future":
                for work, _ in begun:
                    work.get_future().wait()
            for index, (_, after) in enumerate(begun):
                for tensor, expected in after:
                    assert torch.equal(tensor.clone(), expected), (layout, way, index, tensor, expected)


def _finish(works: Any) -> None:
    for work in works:
        work.wait()


def tensors_of_a_mode() -> None:
    """Tensors that were made in inference mode are written outside, whatever their layout."""
    for lay in LAYOUTS.values():
        with torch.inference_mode():
            tensor = lay(_full(1))
        dist.all_reduce(tensor)
        assert torch.equal(tensor.clone(), _full(dist.get_world_size()))


def only_read() -> None:
    """What an operation only reads may be expanded, in memory that nobody can write, and is as it was."""
    import mmap

    import numpy as np

    rank, world = dist.get_rank(), dist.get_world_size()
    with open("/proc/self/exe", "rb") as file:
        memory = mmap.mmap(file.fileno(), 4096, prot=mmap.PROT_READ)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it says that a write is a crash
        values = torch.from_numpy(np.frombuffer(memory, np.uint8)[:24]).view(6, 4)
    for source in (values, values.t(), values.new_full((1, 1), 7).expand(6, 4)):
        copy, root = source.clone(), rank == 1
        dist.broadcast(source if root else torch.empty_like(copy), 1)
        dist.reduce(source if not root else copy.clone(), 1, dist.ReduceOp.MAX)
        dist.all_gather([torch.empty_like(copy) for _ in range(world)], source)
        dist.all_gather_into_tensor(copy.repeat(world, 1), source)
        dist.gather(source, [torch.empty_like(copy) for _ in range(world)] if root else None, 1)
        dist.scatter(torch.empty_like(copy), [source] * world if root else None, 1)
        dist.reduce_scatter(torch.empty_like(copy), [source] * world, dist.ReduceOp.MAX)
        rows = source[:source.shape[0] - source.shape[0] % world]
        share = torch.empty(rows.shape[0] // world, rows.shape[1], dtype=torch.uint8)
        dist.reduce_scatter_tensor(share, rows, dist.ReduceOp.MAX)
        dist.all_to_all([torch.empty_like(copy) for _ in range(world)], [source] * world)
        dist.all_to_all_single(torch.empty(rows.shape, dtype=torch.uint8), rows)
        sending = dist.isend(source, (rank + 1) % world)
        dist.recv(torch.empty_like(copy), (rank - 1) % world)
        sending.wait()
        assert torch.equal(source, copy)
