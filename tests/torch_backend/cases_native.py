"""What the compiled part makes right, and the alias. All ranks run each function."""

from __future__ import annotations

import datetime
import threading
import time

import torch
import torch.distributed as dist
from support import agree, fresh, raises

import nezha
from nezha.torch import communicator, _native


def polled() -> None:
    """is_completed() tells the truth, before and after."""
    assert _native.available()
    group = fresh()
    if dist.get_rank() == 0:
        tensor = torch.ones(10)
        work = dist.all_reduce(tensor, group=group, async_op=True)
        assert not work.is_completed() and not work.is_success()
        dist.barrier()
        deadline = time.monotonic() + 30
        while not work.is_completed():
            assert time.monotonic() < deadline
        assert work.is_success() and tensor[0] == dist.get_world_size()
        agree(work.result()[0], tensor)
        assert work.get_future().wait()[0] is not None
    else:
        dist.barrier()
        dist.all_reduce(torch.ones(10), group=group)


def any_source() -> None:
    """recv without a source returns who it was."""
    rank, world = dist.get_rank(), dist.get_world_size()
    if rank == 0:
        sources = set()
        for _ in range(world - 1):
            tensor = torch.zeros(4)
            source = dist.recv(tensor)
            agree(tensor, torch.full((4,), float(source)))
            sources.add(source)
        assert sources == set(range(1, world))
    else:
        dist.send(torch.full((4,), float(rank)), 0)
    if rank == 1:
        sending = dist.isend(torch.ones(2), 2, tag=7)
        sending.wait()
        assert sending.is_completed()
    elif rank == 2:
        tensor = torch.zeros(2)
        receiving = dist.irecv(tensor, tag=7)
        receiving.wait()
        assert receiving.is_completed() and receiving._source_rank() == 1


def failed() -> None:
    """A failed operation is completed, has an exception and raises it."""
    group = fresh()
    backend = group._get_backend(torch.device("cpu"))
    if dist.get_rank() == 0:
        work = dist.all_reduce(torch.ones(4), group=group, async_op=True)
        raises(dist.DistBackendError, "timed out after",
               lambda: work.wait(datetime.timedelta(milliseconds=10)))
        backend.abort()
        raises(dist.DistBackendError, "abort", work.wait)
        assert work.is_completed() and not work.is_success()
    dist.barrier()
    assert backend.get_error().name == ("COMM_ERROR" if dist.get_rank() == 0 else "SUCCESS")


def surface() -> None:
    """What torch asks of a backend goes through to the Python one."""
    backend = dist.group.WORLD._get_backend(torch.device("cpu"))
    assert backend.name() == "nezha" and backend.options.backend == "nezha"
    assert backend.supports_splitting and backend.supports_reconfigure
    assert communicator().rank == dist.get_rank() == backend.rank()
    before = backend._get_sequence_number_for_group()
    dist.monitored_barrier()
    dist.barrier()
    assert backend._get_sequence_number_for_group() == before + 1


def direct() -> None:
    """Plain tensors go past Python, with the same results; others do not."""
    rank, world = dist.get_rank(), dist.get_world_size()
    backend = dist.group.WORLD._get_backend(torch.device("cpu"))
    python = _native.implementation(backend)
    total = world * (world - 1) // 2
    for dtype in (torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.int8,
                  torch.int16, torch.int32, torch.int64, torch.uint8, torch.uint16, torch.uint32,
                  torch.uint64, torch.float8_e4m3fn, torch.float8_e5m2):
        before, by_python = backend._get_sequence_number_for_group(), python._sequence
        tensor = torch.full((5,), rank, dtype=dtype)
        dist.all_reduce(tensor)
        agree(tensor, torch.full((5,), total, dtype=dtype))
        dist.broadcast(tensor.fill_(rank + 1), 1)
        agree(tensor, torch.full((5,), 2, dtype=dtype))
        gathered = torch.zeros(2 * world, dtype=dtype)
        dist.all_gather_into_tensor(gathered, torch.full((2,), rank, dtype=dtype))
        agree(gathered, torch.arange(world).repeat_interleave(2).to(dtype))
        scattered = torch.zeros(2, dtype=dtype)
        dist.reduce_scatter_tensor(scattered, gathered, dist.ReduceOp.MAX)
        agree(scattered, torch.full((2,), rank, dtype=dtype))
        assert backend._get_sequence_number_for_group() == before + 4
        assert python._sequence == by_python, "these take the path without Python"
    by_python = python._sequence
    matrix = torch.full((4, 6), float(rank))
    dist.all_reduce(matrix[:, ::2])
    agree(matrix[:, ::2], torch.full((4, 3), float(total)))
    agree(matrix[:, 1::2], torch.full((4, 3), float(rank)))
    flags = torch.tensor([rank == 0, False])
    dist.all_reduce(flags)
    agree(flags, torch.tensor([True, False]))
    assert python._sequence == by_python + 2


def direct_handles() -> None:
    """So do those whose caller waits later; their handles say all that those made in Python say."""
    rank, world = dist.get_rank(), dist.get_world_size()
    python = _native.implementation(dist.group.WORLD._get_backend(torch.device("cpu")))
    by_python = python._sequence
    total = float(world * (world - 1) // 2)
    summed, copied = torch.full((5,), float(rank)), torch.full((5,), float(rank))
    gathered, scattered = torch.zeros(2 * world), torch.zeros(2)
    ranks = torch.arange(float(world)).repeat_interleave(2)
    works = [dist.all_reduce(summed, async_op=True), dist.broadcast(copied, 1, async_op=True),
             dist.all_gather_into_tensor(gathered, torch.full((2,), float(rank)), async_op=True),
             dist.reduce_scatter_tensor(scattered, ranks.clone(), dist.ReduceOp.MAX, async_op=True)]
    assert python._sequence == by_python, "these take the path without Python"
    expected = [torch.full((5,), total), torch.full((5,), 1.0), ranks, torch.full((2,), float(rank))]
    for work, right in zip(works, expected):
        waiting = threading.Thread(target=work.wait)
        waiting.start()
        assert work.wait() and work.wait(datetime.timedelta(seconds=30))
        waiting.join()
        assert work.is_completed() and work.is_success()
        agree(work.result()[0], right)
        agree(work.get_future().wait()[0], right)
    future = dist.all_reduce(summed.fill_(rank), async_op=True).get_future()
    agree(future.then(lambda done: done.value()[0] + 1).wait(), torch.full((5,), total + 1))
    with torch.profiler.profile() as profile:
        dist.all_reduce(summed, async_op=True).wait()
    assert "nezha:all_reduce" in {event.key for event in profile.key_averages()}
    assert python._sequence == by_python, "also in a profile"


def direct_failures() -> None:
    """The direct path's errors, and its marks in profiles, are those of the path through Python."""
    group = fresh()
    with torch.profiler.profile() as profile:
        dist.all_reduce(torch.ones(4), group=group)
    assert "nezha:all_reduce" in {event.key for event in profile.key_averages()}
    raises(nezha.InvalidArgument, "elements", lambda: dist.all_gather_into_tensor(
        torch.zeros(3), torch.zeros(2), group=group))
    if dist.get_rank() == 0:
        group._get_backend(torch.device("cpu")).set_timeout(datetime.timedelta(milliseconds=50))
        raises(dist.DistBackendError, "timed out after",
               lambda: dist.all_reduce(torch.ones(4), group=group))
    dist.barrier()


def alias() -> None:
    """A program that says gloo gets Nezha."""
    group = dist.new_group(backend="gloo")
    assert dist.get_backend(group) == "gloo"
    assert communicator(group).world_size == dist.get_world_size()
    tensor = torch.ones(3)
    dist.all_reduce(tensor, group=group)
    agree(tensor, torch.full((3,), float(dist.get_world_size())))


def reconfigured() -> None:
    """The members meet anew in another order, then without one of them."""
    rank, world = dist.get_rank(), dist.get_world_size()
    from torch._C import _distributed_c10d as c10d

    from nezha.torch._backend import NezhaBackend, make_options

    options = make_options("nezha", datetime.timedelta(seconds=60))
    backend = _native.wrap(NezhaBackend(None, None, rank, world, options))
    raises(ValueError, "reconfigure", lambda: backend.barrier().wait())
    handles = [None] * world
    dist.all_gather_object(handles, backend.get_reconfigure_handle())
    for uuid, members in ((1, handles[::-1]), (2, handles[:2])):
        if backend.get_reconfigure_handle() in members:
            chosen = c10d.ReconfigureOptions()
            chosen.uuid, chosen.handles = uuid, members
            backend.reconfigure(chosen).wait()
            assert backend.size() == len(members)
            assert backend.rank() == members.index(handles[rank])
            tensor = torch.tensor([1.0])
            backend.allreduce([tensor]).wait()
            assert tensor.item() == len(members)
            if uuid == 1:
                dist.barrier()  # who has its result may not end what others still wait for
                backend.abort()
    dist.barrier()
    backend.shutdown()


def replaced() -> None:
    """A newcomer takes a member's place: what they count alike, and who is who, begins anew."""
    from torch._C import _distributed_c10d as c10d

    from nezha.torch._backend import NezhaBackend, make_options

    rank, long = dist.get_rank(), datetime.timedelta(seconds=60)
    python = NezhaBackend(None, None, rank, dist.get_world_size(), make_options("nezha", long))
    backend = _native.wrap(python)
    handles = [None] * dist.get_world_size()
    dist.all_gather_object(handles, backend.get_reconfigure_handle())
    for uuid, members in ((1, [0, 1]), (2, [0, 2]), (3, [2, 1, 0])):
        if rank in members:
            chosen = c10d.ReconfigureOptions()
            chosen.uuid, chosen.handles = uuid, [handles[member] for member in members]
            backend.reconfigure(chosen).wait()
            assert python.options.global_ranks_in_group == list(range(len(members)))
            for _ in range(uuid):
                backend.monitored_barrier(long, True)
                backend.allreduce([torch.ones(1)]).wait()
                backend.allreduce([torch.ones(2, 3).t()]).wait()
            assert backend._get_sequence_number_for_group() == 2 * uuid
        dist.barrier()
        if rank in members:
            backend.abort()
    dist.barrier()
    backend.shutdown()
