"""Every collective and form of torch.distributed, against Gloo. All ranks run each function."""

from __future__ import annotations

import time
import warnings
from typing import Any

import torch
import torch.distributed as dist
from support import agree, compare, values

from nezha.torch import _work

INTEGERS = [torch.uint8, torch.int8, torch.int32, torch.int64]
FLOATS = [torch.float16, torch.bfloat16, torch.float32, torch.float64]
SHAPES = [(1,), (7, 3), (0,), (3000,)]
warnings.simplefilter("ignore")


def all_reduce() -> None:
    """Operators x dtypes x shapes, waiting and not."""
    ops = dist.ReduceOp
    for dtype in INTEGERS + FLOATS:
        allowed = [ops.SUM, ops.PRODUCT, ops.MIN, ops.MAX]
        if not dtype.is_floating_point:
            allowed += [ops.BAND, ops.BOR, ops.BXOR]
        for op in allowed:
            for index, shape in enumerate(SHAPES if op == ops.SUM else SHAPES[:2]):
                def program(group: Any) -> torch.Tensor:
                    tensor = values(dtype, *shape, salt=index)
                    work = dist.all_reduce(tensor, op, group=group, async_op=index % 2 == 1)
                    if work is not None:
                        work.wait()
                    return tensor
                compare(program)


def all_reduce_kinds() -> None:
    """bool, complex, averages, factors, and a scalar tensor."""
    world = dist.get_world_size()
    for op, word in ((dist.ReduceOp.MAX, any), (dist.ReduceOp.MIN, all), (dist.ReduceOp.SUM, any),
                     (dist.ReduceOp.PRODUCT, all), (dist.ReduceOp.BOR, any)):
        tensor = torch.tensor([dist.get_rank() == 0, True, False])
        dist.all_reduce(tensor, op)
        rows = [[rank == 0, True, False] for rank in range(world)]
        assert tensor.tolist() == [word(column) for column in zip(*rows)]
        assert tensor.view(torch.uint8).max() <= 1
    for dtype in (torch.complex64, torch.complex128):
        def program(group: Any) -> torch.Tensor:
            tensor = values(dtype, 5, 2)
            dist.all_reduce(tensor, group=group)
            return tensor
        compare(program)
    for dtype in FLOATS:
        tensor = torch.full((5,), float(dist.get_rank()), dtype=dtype)
        dist.all_reduce(tensor, dist.ReduceOp.AVG)
        agree(tensor, torch.full((5,), (world - 1) / 2, dtype=dtype))
        tensor = torch.full((5,), 2.0, dtype=dtype)
        dist.all_reduce(tensor, dist._make_nccl_premul_sum(0.5))
        agree(tensor, torch.full((5,), float(world), dtype=dtype))
    for dtype in (torch.int16, torch.uint16, torch.uint32, torch.uint64):  # which Gloo does not reduce
        tensor = torch.full((5,), dist.get_rank() + 1, dtype=dtype)
        dist.all_reduce(tensor, dist.ReduceOp.MAX)
        agree(tensor, torch.full((5,), world, dtype=dtype))
    scalar = torch.tensor(3)
    dist.all_reduce(scalar)
    assert scalar.item() == 3 * world


def non_contiguous() -> None:
    """Columns of a matrix are packed and unpacked."""
    whole = torch.arange(12.0).view(3, 4).clone()
    dist.all_reduce(whole[:, 1])
    expected = torch.arange(12.0).view(3, 4)
    expected[:, 1] *= dist.get_world_size()
    agree(whole, expected)
    received = torch.zeros(4, 3).t()
    dist.broadcast(received if dist.get_rank() else whole, 0)
    agree(received.contiguous() if dist.get_rank() else whole, expected)
    parts = [torch.zeros(4, 3).t() for _ in range(dist.get_world_size())]
    dist.all_gather(parts, expected.t().contiguous().t() + dist.get_rank())
    for rank, part in enumerate(parts):
        agree(part.contiguous(), expected + rank)


def coalesced() -> None:
    """The three coalesced forms, and the deprecated one."""
    def reduced(group: Any) -> Any:
        tensors = [values(torch.float32, 3), values(torch.float32, 500), values(torch.float32, 1)]
        with dist._coalescing_manager(group):
            for tensor in tensors:
                dist.all_reduce(tensor, group=group)
        return tensors
    compare(reduced)

    def deprecated(group: Any) -> Any:
        tensors = [values(torch.int64, 3), values(torch.int64, 50)]
        dist.all_reduce_coalesced(tensors, group=group)
        return tensors
    compare(deprecated)
    world, rank = dist.get_world_size(), dist.get_rank()
    outputs = [torch.empty(world * size) for size in (2, 30)]
    with dist._coalescing_manager(async_ops=True) as manager:
        for output, size in zip(outputs, (2, 30)):
            dist.all_gather_into_tensor(output, torch.full((size,), float(rank)))
    manager.wait()
    for output, size in zip(outputs, (2, 30)):
        agree(output, torch.arange(float(world)).repeat_interleave(size))
    outputs = [torch.empty(size) for size in (2, 30)]
    with dist._coalescing_manager():
        for output, size in zip(outputs, (2, 30)):
            dist.reduce_scatter_tensor(output, torch.ones(size * world) * (rank + 1))
    for output in outputs:
        agree(output, torch.full(output.shape, world * (world + 1) / 2))


def broadcast() -> None:
    """Any dtype from any root."""
    for dtype in INTEGERS + FLOATS + [torch.bool, torch.complex64, torch.int16]:
        for root in range(dist.get_world_size()):
            tensor = values(dtype, 9, 2)
            dist.broadcast(tensor, root)
            expected = [None]
            gathered = [torch.empty_like(tensor) for _ in range(dist.get_world_size())]
            dist.all_gather(gathered, values(dtype, 9, 2))
            expected = gathered[root]
            assert torch.equal(tensor, expected), (dtype, root)


def reduce() -> None:
    """The result at the root, nothing elsewhere."""
    for root in range(dist.get_world_size()):
        for dtype in (torch.int64, torch.float32):
            def program(group: Any) -> Any:
                tensor = values(dtype, 40)
                dist.reduce(tensor, root, group=group)
                return tensor if dist.get_rank() == root else torch.zeros(1)
            compare(program)
        untouched = values(torch.int32, 40)
        dist.reduce(untouched, root)
        if dist.get_rank() != root:
            agree(untouched, values(torch.int32, 40))


def gathers() -> None:
    """all_gather and gather in all forms."""
    world, rank = dist.get_world_size(), dist.get_rank()
    for dtype in (torch.int64, torch.float32, torch.bool, torch.complex64):
        def listed(group: Any) -> Any:
            outputs = [torch.zeros(4, 2, dtype=dtype) for _ in range(world)]
            dist.all_gather(outputs, values(dtype, 4, 2), group=group)
            return outputs
        compare(listed)

        def rooted(group: Any) -> Any:
            outputs = [torch.zeros(4, dtype=dtype) for _ in range(world)] if rank == 1 else None
            dist.gather(values(dtype, 4), outputs, dst=1, group=group)
            return outputs or torch.zeros(1)
        if dtype in (torch.int64, torch.float32):  # Gloo gathers no others
            compare(rooted)
        expected = [torch.zeros(4, dtype=dtype) for _ in range(world)]
        dist.all_gather(expected, values(dtype, 4))
        for found, other in zip(rooted(dist.group.WORLD), expected if rank == 1 else []):
            agree(found, other)
    def single(group: Any) -> Any:
        output = torch.zeros(world * 5, 3)
        dist.all_gather_into_tensor(output, values(torch.float32, 5, 3), group=group)
        return output
    compare(single)
    sizes = [1 + 2 * r for r in range(world)]
    for dtype in (torch.float32, torch.int16):  # Gloo wants equal sizes, and knows no int16
        outputs = [torch.empty(size, dtype=dtype) for size in sizes]
        dist.all_gather(outputs, torch.full((sizes[rank],), rank, dtype=dtype))
        for source, output in enumerate(outputs):
            agree(output, torch.full((sizes[source],), source, dtype=dtype))
    lists = [[torch.empty(2), torch.empty(3)] for _ in range(world)]
    dist.all_gather_coalesced(lists, [torch.full((2,), rank + 0.0), torch.full((3,), rank + 0.5)])
    for source, pair in enumerate(lists):
        agree(pair[0], torch.full((2,), source + 0.0))
        agree(pair[1], torch.full((3,), source + 0.5))


def scatters() -> None:
    """scatter and reduce_scatter in all forms."""
    world, rank = dist.get_world_size(), dist.get_rank()
    for dtype in (torch.int64, torch.float32, torch.bool):
        def rooted(group: Any) -> Any:
            output = torch.zeros(4, dtype=dtype)
            inputs = [values(dtype, 4, salt=r) for r in range(world)] if rank == 2 else None
            dist.scatter(output, inputs, src=2, group=group)
            return output
        compare(rooted)
    for op in (dist.ReduceOp.SUM, dist.ReduceOp.MAX):
        def single(group: Any) -> Any:
            output = torch.zeros(6, dtype=torch.int64)
            dist.reduce_scatter_tensor(output, values(torch.int64, 6 * world), op, group=group)
            return output
        compare(single)
    sizes = [4, 1, 9][:world]
    inputs = [torch.full((size,), rank + 1.0) for size in sizes]
    output = torch.empty(sizes[rank])
    dist.reduce_scatter(output, inputs)
    agree(output, torch.full((sizes[rank],), world * (world + 1) / 2))
    output = torch.empty(2)
    dist.reduce_scatter(output, [torch.full((2,), float(rank))] * world, dist.ReduceOp.AVG)
    agree(output, torch.full((2,), (world - 1) / 2))


def exchanges() -> None:
    """all_to_all in both forms, with and without split sizes."""
    world, rank = dist.get_world_size(), dist.get_rank()
    def equal(group: Any) -> Any:
        output = torch.zeros(2 * world, 3, dtype=torch.int64)
        dist.all_to_all_single(output, values(torch.int64, 2 * world, 3), group=group)
        return output
    compare(equal)

    def uneven(group: Any) -> Any:
        sends = [rank + 1] * world
        receives = [source + 1 for source in range(world)]
        output = torch.zeros(sum(receives), 2)
        dist.all_to_all_single(output, values(torch.float32, sum(sends), 2), receives, sends,
                               group=group)
        return output
    compare(uneven)
    inputs = [torch.full((rank + target,), 10.0 * rank + target) for target in range(world)]
    outputs = [torch.zeros(source + rank) for source in range(world)]
    dist.all_to_all(outputs, inputs)
    for source, output in enumerate(outputs):
        agree(output, torch.full((source + rank,), 10.0 * source + rank))
    bools = torch.tensor([bool(rank % 2)] * world)
    output = torch.zeros(world, dtype=torch.bool)
    dist.all_to_all_single(output, bools)
    assert output.tolist() == [bool(source % 2) for source in range(world)]


def messages() -> None:
    """send and recv, asynchronous, tagged, batched, to oneself refused."""
    world, rank = dist.get_world_size(), dist.get_rank()
    after, before = (rank + 1) % world, (rank - 1) % world
    for dtype in (torch.float32, torch.int16, torch.complex64):
        received = torch.zeros(5, dtype=dtype)
        sending = dist.isend(values(dtype, 5), after)
        dist.recv(received, before)
        sending.wait()
        gathered = [torch.empty(5, dtype=dtype) for _ in range(world)]
        dist.all_gather(gathered, values(dtype, 5))
        agree(received, gathered[before])
    first, second = torch.zeros(1), torch.zeros(1)
    works = [dist.isend(torch.tensor([1.0]), after, tag=1),
             dist.isend(torch.tensor([2.0]), after, tag=2),
             dist.irecv(second, before, tag=2), dist.irecv(first, before, tag=1)]
    for each in works:
        each.wait()
    assert (first.item(), second.item()) == (1.0, 2.0)
    big, got = torch.full((300000,), float(rank)), torch.zeros(300000)
    batch = [dist.P2POp(dist.irecv, got, before), dist.P2POp(dist.isend, big, after)]
    for each in dist.batch_isend_irecv(batch):
        each.wait()
    agree(got, torch.full((300000,), float(before)))


def objects() -> None:
    """Pickled objects of different sizes."""
    world, rank = dist.get_world_size(), dist.get_rank()
    mine = {"rank": rank, "text": "x" * (100 * rank)}
    found = [None] * world
    dist.all_gather_object(found, mine)
    assert [item["rank"] for item in found] == list(range(world))
    one = [mine if rank == 1 else None]
    dist.broadcast_object_list(one, 1)
    assert one[0]["rank"] == 1
    gathered = [None] * world if rank == 0 else None
    dist.gather_object(mine, gathered, 0)
    assert gathered is None or len(gathered[2]["text"]) == 200
    output = [None]
    dist.scatter_object_list(output, [r * r for r in range(world)] if rank == 0 else [None], 0)
    assert output == [rank * rank]


def futures() -> None:
    """Many at once, chained, with the tensors as values."""
    tensors = [torch.full((1000,), float(index)) for index in range(20)]
    chained = [dist.all_reduce(tensor, async_op=True).get_future().then(
        lambda future: future.value()[0].sum().item()) for tensor in tensors]
    world = dist.get_world_size()
    assert [future.wait() for future in chained] == [1000.0 * i * world for i in range(20)]
    failed = dist.all_reduce(torch.ones(3), async_op=True)
    failed.wait()
    assert failed.get_future().done() or failed.get_future().wait()


def flushed_denormals() -> None:
    """torch.set_flush_denormal does not reach sums: subnormal numbers are not flushed on any rank."""
    world = dist.get_world_size()
    tiny = torch.full((700,), 2**20, dtype=torch.int32)
    assert torch.set_flush_denormal(True)
    try:
        for _ in range(50):
            bits = tiny.clone()  # of float32: 2**20 of the smallest numbers
            work = dist.all_reduce(bits.view(torch.float32), async_op=True)
            if dist.get_rank() > 0:
                time.sleep(1e-4)  # so that other threads than the caller's add up, too
            work.wait()
            assert torch.equal(bits, tiny * world), bits
    finally:
        torch.set_flush_denormal(False)


def waiting() -> None:
    """Who waits drives the operation alone: no form of waiting makes a handle, let alone a future."""
    made = []
    original = _work.Work.__init__, _work.Done.__init__
    _work.Work.__init__ = _work.Done.__init__ = lambda self, *rest: made.append(self)
    try:
        _all_forms(torch.ones(3), dist.get_world_size())
    finally:
        _work.Work.__init__, _work.Done.__init__ = original
    assert not made, f"{len(made)} handles were made for callers who waited"


def _all_forms(one: torch.Tensor, world: int) -> None:
    row, parts = one.repeat(world), [one.clone() for _ in range(world)]
    first = dist.get_rank() == 0
    for call in (lambda: dist.all_reduce(one.clone()), lambda: dist.broadcast(one, 0),
                 lambda: dist.reduce(one.clone(), 0), lambda: dist.all_gather(parts, one),
                 lambda: dist.all_gather_into_tensor(row, one),
                 lambda: dist.gather(one, parts if first else None, 0),
                 lambda: dist.scatter(one, parts if first else None, 0),
                 lambda: dist.reduce_scatter(one.clone(), parts),
                 lambda: dist.reduce_scatter_tensor(one.clone(), row),
                 lambda: dist.all_to_all([part.clone() for part in parts], parts),
                 lambda: dist.all_to_all_single(row.clone(), row), dist.barrier,
                 lambda: dist.all_reduce(torch.ones(4, 3)[:, 1])):
        call()
    pair = [torch.ones(2), torch.ones(5, 2).t()]
    dist.all_reduce_coalesced(pair)
    with dist._coalescing_manager():
        for tensor in pair:
            dist.all_reduce(tensor)
    for tensor in pair:
        agree(tensor.contiguous(), torch.full(tensor.shape, float(world) ** 2))
