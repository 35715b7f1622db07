"""Groups inside groups, their ends, and what happens after. All ranks run each function."""

from __future__ import annotations

import datetime
import threading
from typing import Any

import torch
import torch.distributed as dist
from support import agree, fresh, raises

import nezha
from nezha.torch import communicator


def entry_point() -> None:
    """The default group is Nezha's, by its name only."""
    assert dist.get_backend() == "nezha"
    assert dist.get_backend_config() == "cpu:nezha,cuda:nezha"
    comm = communicator()
    assert (comm.rank, comm.world_size) == (dist.get_rank(), dist.get_world_size())
    backend = dist.group.WORLD._get_backend(torch.device("cpu"))
    assert backend.name() == "nezha" and backend.options.backend == "nezha"
    assert backend.get_error() == dist.distributed_c10d._get_default_group()._get_backend(
        torch.device("cpu")).get_error()


def new_groups() -> None:
    """Overlapping groups in several orders of ranks, and members only."""
    rank, world = dist.get_rank(), dist.get_world_size()
    pairs = [fresh(a, b) for a in range(world) for b in range(a + 1, world)]
    total = 0
    for group in pairs:
        if group is not dist.GroupMember.NON_GROUP_MEMBER:
            tensor = torch.tensor([rank])
            dist.all_reduce(tensor, group=group)
            assert tensor.item() == sum(dist.get_process_group_ranks(group))
            total += 1
    assert total == world - 1
    mine = [0] if rank == 0 else [1, 2]  # torch counts such groups: each rank must make as many
    local = dist.new_group(mine, use_local_synchronization=True, backend="nezha")
    tensor = torch.tensor([1.0])
    dist.all_reduce(tensor, group=local)
    assert tensor.item() == len(mine)
    dist.destroy_process_group(local)
    again = dist.new_group(backend="nezha")
    dist.barrier(again)
    for group in (*pairs, again):
        if group is not dist.GroupMember.NON_GROUP_MEMBER:
            dist.destroy_process_group(group)


def split_group() -> None:
    """split_group keeps the order that it is given, and the others get no group."""
    rank = dist.get_rank()
    group = dist.split_group(split_ranks=[[2, 0], [1]])
    size = 1 if rank == 1 else 2
    assert group.size() == size and group.rank() == {0: 1, 1: 0, 2: 0}[rank]
    gathered = torch.empty(size, dtype=torch.int64)
    dist.all_gather_into_tensor(gathered, torch.tensor([rank]), group=group)
    assert gathered.tolist() == ([1] if rank == 1 else [2, 0])
    backend = group._get_backend(torch.device("cpu"))
    assert list(backend.options.global_ranks_in_group) == gathered.tolist()
    dist.destroy_process_group(group)


def split_leaves_out() -> None:
    """Ranks of no part get no group, or learn why torch cannot say so."""
    from nezha.torch import _native

    if dist.get_rank() == 1 and not _native.available():
        raises(nezha.Unsupported, "build_native", lambda: dist.split_group(split_ranks=[[0, 2]]))
        return
    group = dist.split_group(split_ranks=[[0, 2]])
    if dist.get_rank() == 1:
        assert group is dist.GroupMember.NON_GROUP_MEMBER
    else:
        dist.barrier(group)
        dist.destroy_process_group(group)


def device_mesh() -> None:
    """A mesh of one dimension, a DTensor on it, and redistribution."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import Replicate, Shard, distribute_tensor

    world = dist.get_world_size()
    mesh = init_device_mesh("cpu", (world,))
    whole = torch.arange(24.0 * world).view(4 * world, 6)
    sharded = distribute_tensor(whole, mesh, [Shard(0)])
    agree(sharded.redistribute(placements=[Replicate()]).to_local(), whole)
    moved = sharded.redistribute(placements=[Shard(1)])
    agree(moved.full_tensor(), whole)
    agree((sharded @ sharded.t()).full_tensor(), whole @ whole.t())
    agree(sharded.sum().full_tensor(), whole.sum())


def destroyed() -> None:
    """A destroyed group says so, also the second time."""
    group = fresh()
    backend = group._get_backend(torch.device("cpu"))
    dist.barrier(group)
    dist.destroy_process_group(group)
    raises(RuntimeError, "has been destroyed", lambda: backend.barrier())
    backend.shutdown()
    raises(ValueError, "Invalid process group", lambda: dist.destroy_process_group(group))
    dist.barrier()


def aborted() -> None:
    """abort() in one rank wakes the others; the group then refuses, and others still work."""
    group = fresh()
    backend = group._get_backend(torch.device("cpu"))
    if dist.get_rank() == 0:
        work = dist.all_reduce(torch.ones(4), group=group, async_op=True)
        threading.Timer(0.2, backend.abort).start()
        raises(dist.DistBackendError, "abort", work.wait)
        raises(nezha.Error, "aborted", lambda: dist.all_reduce(torch.ones(4), group=group))
        assert backend.get_error().name == "COMM_ERROR"
    elif dist.get_rank() == 1:
        raises(nezha.Error, "abort", lambda: dist.all_reduce(torch.ones(4), group=group))
    dist.barrier()
    backend.abort()
    backend.shutdown()


def deadlines() -> None:
    """A wait that is too short, an operation that is too long; both in torch's words."""
    group = fresh(timeout=datetime.timedelta(seconds=60))
    if dist.get_rank() == 0:
        tensor = torch.ones(4)
        work = dist.all_reduce(tensor, group=group, async_op=True)
        raises(dist.DistBackendError, "timed out after",
               lambda: work.wait(datetime.timedelta(milliseconds=20)))
        dist.barrier()
        work.wait()
    else:
        dist.barrier()
        dist.all_reduce(torch.ones(4), group=group)
    backend = group._get_backend(torch.device("cpu"))
    backend.set_timeout(datetime.timedelta(milliseconds=300))
    if dist.get_rank() == 0:
        raises(RuntimeError, "timed out after", lambda: dist.all_reduce(torch.ones(4), group=group))
    dist.barrier()


def monitored_barrier() -> None:
    """Names who is absent: the first, or all; and the group goes on."""
    rank, group = dist.get_rank(), fresh()
    soon = datetime.timedelta(milliseconds=300)
    dist.monitored_barrier(group, timeout=datetime.timedelta(seconds=30))
    if rank == 0:
        raises(RuntimeError, "Rank 1 failed to pass monitoredBarrier in 300 ms",
               lambda: dist.monitored_barrier(group, soon))
        raises(RuntimeError, "Ranks 1, 2 failed to pass monitoredBarrier in 300 ms",
               lambda: dist.monitored_barrier(group, soon, wait_all_ranks=True))
    dist.barrier()
    absent = fresh()
    if rank == 2:
        raises(RuntimeError, "Rank 2 timed out in monitoredBarrier|Rank 2 successfully reached",
               lambda: dist.monitored_barrier(absent, soon))
    dist.barrier(group)


def store_keys(calls: int) -> None:
    """What is called again and again leaves no more in the store the more often it is called."""
    store, found = dist.distributed_c10d._get_default_store(), [None] * dist.get_world_size()

    def grown(body: Any, times: int) -> int:
        body()
        dist.barrier()
        before = store.num_keys()
        dist.barrier()
        for _ in range(times):
            body()
        dist.barrier()
        after: int = store.num_keys()
        dist.barrier()
        return after - before

    def everything() -> None:
        dist.monitored_barrier()
        dist.barrier()
        dist.all_gather_object(found, "x")
        dist.broadcast_object_list([1], 0)

    def group_of(backend: str) -> None:
        group = fresh(backend=backend)
        dist.barrier()  # torch's Gloo fails to make a group that another rank ends meanwhile
        dist.destroy_process_group(group)

    assert grown(everything, calls) <= 0
    # torch itself leaves keys of each group; Nezha adds none, where Gloo has addresses.
    assert grown(lambda: group_of("nezha"), 20) < grown(lambda: group_of("gloo"), 20)


def late_for_a_barrier() -> None:
    """A rank that comes late to a barrier is told, and the next one is complete."""
    group, rank = fresh(), dist.get_rank()
    if rank == 0:
        raises(RuntimeError, "Rank 2 failed to pass", lambda: dist.monitored_barrier(
            group, datetime.timedelta(milliseconds=300)))
    dist.barrier(fresh(0, 2)) if rank != 1 else fresh(0, 2)
    if rank != 0:
        raises(RuntimeError, "Rank 2 failed to pass", lambda: dist.monitored_barrier(
            group, datetime.timedelta(seconds=60)))
    dist.monitored_barrier(group, datetime.timedelta(seconds=60))


def mismatch() -> None:
    """Ranks that call different operations all get an error that says so."""
    group = fresh(timeout=datetime.timedelta(seconds=20))
    size = 4 if dist.get_rank() == 0 else 8
    raises(nezha.Error, "", lambda: dist.all_reduce(torch.ones(size), group=group))
    dist.barrier()


def bad_input() -> None:
    """Wrong tensors are refused before anything is sent, so the group stays usable."""
    world = dist.get_world_size()
    backend = dist.group.WORLD._get_backend(torch.device("cpu"))
    sparse = torch.eye(3).to_sparse()
    raises(nezha.Unsupported, "dense", lambda: dist.all_reduce(sparse))
    for tensor, words in ((sparse, "dense"), (torch.zeros(2, dtype=torch.float8_e4m3fnuz), "float8"),
                          (torch.empty(4, device="meta"), "meta")):
        raises(nezha.Unsupported, words, lambda: backend.allreduce([tensor]))
    complex_numbers = torch.zeros(2, dtype=torch.complex64)
    raises(nezha.Unsupported, "complex",
           lambda: backend.allreduce([complex_numbers], max_options()))
    raises(ValueError, f"{world} ranks with", lambda: dist.all_gather_into_tensor(
        torch.empty(world * 4 + 1), torch.empty(4)))
    raises(ValueError, "dtype", lambda: dist.all_gather_into_tensor(
        torch.empty(world * 4), torch.empty(4, dtype=torch.int32)))
    raises(ValueError, "tensors for", lambda: dist.all_gather([torch.empty(4)], torch.empty(4)))
    raises(ValueError, "split sizes", lambda: dist.all_to_all_single(
        torch.empty(4), torch.empty(4), [4] * world, [4] * world))
    tensor = torch.ones(2)
    dist.all_reduce(tensor)
    assert tensor.tolist() == [world, world]


def max_options() -> Any:
    """AllreduceOptions with MAX."""
    options = dist.AllreduceOptions()
    options.reduceOp = dist.ReduceOp.MAX
    return options


def detail() -> None:
    """TORCH_DISTRIBUTED_DEBUG=DETAIL wraps the backend and finds who called something else."""
    dist.set_debug_level(dist.DebugLevel.DETAIL)
    try:
        group = fresh(timeout=datetime.timedelta(seconds=30))
        tensor = torch.ones(3)
        dist.all_reduce(tensor, group=group)
        assert tensor[0] == dist.get_world_size()
        assert communicator(group).world_size == dist.get_world_size()
        different = torch.ones(3 if dist.get_rank() else 4)
        raises(RuntimeError, "different|mismatch", lambda: dist.all_reduce(different, group=group))
    finally:
        dist.set_debug_level(dist.DebugLevel.OFF)


def sequence_numbers() -> None:
    """They count operations."""
    backend = dist.group.WORLD._get_backend(torch.device("cpu"))
    before = backend._get_sequence_number_for_group()
    dist.barrier()
    dist.all_reduce(torch.ones(1))
    assert backend._get_sequence_number_for_group() == before + 2


def profiled() -> None:
    """Operations are in the profile, under the backend's name."""
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
        dist.all_reduce(torch.ones(8))
        dist.all_gather_into_tensor(torch.empty(dist.get_world_size()), torch.ones(1))
        work = dist.broadcast(torch.ones(100000), 0, async_op=True)
        future = work.get_future()
        work.wait()
    future.wait()
    names = {event.key for event in profile.key_averages()}
    assert {"nezha:all_reduce", "nezha:all_gather_single", "nezha:broadcast"} <= names


def threads() -> None:
    """Two threads on two groups of the same ranks."""
    groups = [fresh(), fresh()]
    errors = []

    def body(group: Any, factor: float) -> None:
        try:
            for _ in range(30):
                tensor = torch.full((50,), factor)
                dist.all_reduce(tensor, group=group)
                agree(tensor, torch.full((50,), factor * dist.get_world_size()))
        except BaseException as error:
            errors.append(error)

    running = [threading.Thread(target=body, args=(group, i + 1.0)) for i, group in enumerate(groups)]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join()
    assert not errors


def forked() -> None:
    """A data loader's processes neither use nor break the group."""
    loader = torch.utils.data.DataLoader(list(range(8)), batch_size=4, num_workers=1,
                                         multiprocessing_context="fork")
    assert [batch.tolist() for batch in loader] == [[0, 1, 2, 3], [4, 5, 6, 7]]
    dist.barrier()
