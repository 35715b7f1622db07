"""Training steps as a rank makes them: recorded without communication, replayed, or real.

Needs torch. Seconds are those of this rank; worker.py joins the ranks'. train() and replay() yield
spec.steps + 1 steps, of which the first warms everything up: DDP cuts its final buckets after it.
"""

from __future__ import annotations

import time
import zlib
from statistics import median
from typing import Iterator, List, Sequence, Tuple

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from . import training_models
from .replayed import reference, refuse_wrong
from .training_profile import union_seconds
from .training_spec import Schedule, Step, TrainSpec

_SEED = 20240229
_SAMPLE = 1 << 18  # elements at either end of a bucket whose sums are checked
Interval = Tuple[float, float]


class _Training:
    """A model under DDP, an optimizer, and one batch of random images that serves every step."""

    def __init__(self, spec: TrainSpec, rank: int) -> None:
        torch.manual_seed(_SEED)
        self.ddp = DistributedDataParallel(training_models.build(spec.model),
                                           bucket_cap_mb=spec.bucket_mb, gradient_as_bucket_view=True)
        self._optimizer = torch.optim.SGD(self.ddp.parameters(), lr=1e-3)
        torch.manual_seed(_SEED + rank)
        self._images = torch.randn(spec.batch, *training_models.IMAGE)
        self._labels = torch.randint(training_models.CLASSES, (spec.batch,))

    def until_gradients(self) -> None:
        """Forward and backward; returns when all gradients are there, those of the others included."""
        self._optimizer.zero_grad()
        nn.functional.cross_entropy(self.ddp(self._images), self._labels).backward()

    def update(self) -> None:
        """The optimizer's step."""
        self._optimizer.step()


def record(spec: TrainSpec, result: List[Schedule]) -> Iterator[Step]:
    """Measures spec.steps steps in a world of one; leaves their medians in `result`."""
    training = _Training(spec, 0)
    ready: List[Tuple[float, int]] = []

    def note(_, bucket):  # type: ignore[no-untyped-def]  # DDP refuses other annotations than its own
        ready.append((time.perf_counter(), bucket.buffer().nbytes))
        done: torch.futures.Future = torch.futures.Future()
        done.set_result(bucket.buffer())
        return done

    training.ddp.register_comm_hook(None, note)
    gaps: List[List[float]] = []
    tails: List[float] = []
    for number in range(spec.steps + 1):  # the first warms up
        ready.clear()
        begin = time.perf_counter()
        training.until_gradients()
        training.update()
        end = time.perf_counter()
        if number == 0:
            continue
        times = [begin] + [moment for moment, _ in ready]
        gaps.append([after - before for before, after in zip(times, times[1:])])
        tails.append(end - times[-1])
        yield Step(end - begin, 0.0, 0.0, 0)
    tensors = [parameter.nbytes for parameter in training.ddp.parameters()]
    result.append(Schedule(
        spec.model, spec.batch, spec.bucket_mb, spec.threads,
        sum(parameter.numel() for parameter in training.ddp.parameters()), tensors,
        [size for _, size in ready], [median(column) for column in zip(*gaps)], median(tails)))


def train(spec: TrainSpec) -> Iterator[Step]:
    """The real training, with a hook that does what DDP does without one and looks at the clock. Sums are
    checked in the first step; what is wrong in it is counted with the second."""
    world = dist.get_world_size()
    training = _Training(spec, dist.get_rank())
    intervals: List[Interval] = []
    begun: List[float] = []
    summed: List[Tuple[torch.Tensor, torch.Tensor]] = []  # what was given, and where the sum will be
    wrong = 0

    def timed(_, bucket):  # type: ignore[no-untyped-def]  # as above
        buffer = bucket.buffer().div_(world)
        if number == 0:
            summed.extend((part.clone(), part) for part in (buffer[:_SAMPLE], buffer[-_SAMPLE:]))
        begun.append(time.perf_counter())
        return _all_reduce(buffer, begun[-1], intervals)

    training.ddp.register_comm_hook(None, timed)
    for number in range(spec.steps + 1):
        intervals.clear()
        begun.clear()
        dist.barrier()
        begin = time.perf_counter()
        training.until_gradients()
        complete = time.perf_counter()
        training.update()
        end = time.perf_counter()
        wrong += sum(count_wrong_sums(*each) for each in summed)
        summed.clear()
        wrong += _different(list(training.ddp.parameters()))
        yield Step(end - begin, union_seconds(intervals), complete - begun[-1], wrong)
        wrong = 0 if number else wrong


def replay(spec: TrainSpec, schedule: Schedule) -> Iterator[Step]:
    """The schedule's all-reduces at their times, sleeping where the recorded step computed. Every sum of
    every step is checked after the step's time has been taken. Raises BenchError for a wrong element."""
    rank, world = dist.get_rank(), dist.get_world_size()
    buffers = [torch.empty(size // 4) for size in schedule.buckets]
    for number in range(spec.steps + 1):
        references = [reference(world, number, index) for index in range(len(buffers))]
        for buffer, given in zip(buffers, references):
            buffer.copy_(torch.from_numpy(given.input(rank, buffer.numel())))
        intervals: List[Interval] = []
        dist.barrier()
        begin = due = time.perf_counter()
        futures = []
        for buffer, gap in zip(buffers, schedule.gaps_s):
            due += gap
            _sleep_until(due)
            futures.append(_all_reduce(buffer, time.perf_counter(), intervals))
        waiting = time.perf_counter()
        torch.futures.wait_all(futures)
        complete = time.perf_counter()
        _sleep_until(complete + schedule.tail_s)
        end = time.perf_counter()
        for index, (buffer, given) in enumerate(zip(buffers, references)):
            refuse_wrong(given.wrong(buffer.numpy()), buffer.numel(), rank,
                         f"step {number}, bucket {index}")
        yield Step(end - begin, union_seconds(intervals), complete - waiting, 0)


def _all_reduce(buffer: torch.Tensor, begun: float, intervals: List[Interval],
                ) -> torch.futures.Future:
    """Starts the sum of `buffer`; the future's value is the buffer, and `intervals` gets its time."""

    def finished(future: torch.futures.Future) -> torch.Tensor:
        intervals.append((begun, time.perf_counter()))
        future.value()  # raises what the operation has raised
        return buffer

    return dist.all_reduce(buffer, async_op=True).get_future().then(finished)


def _sleep_until(moment: float) -> None:
    left = moment - time.perf_counter()
    if left > 0:
        time.sleep(left)


def count_wrong_sums(given_here: torch.Tensor, result: torch.Tensor) -> int:
    """Elements of `result` that are not the sum of what the ranks gave, which is gathered for that and
    added up in another order. Collective."""
    parts = [torch.empty_like(given_here) for _ in range(dist.get_world_size())]
    dist.all_gather(parts, given_here)
    every = torch.stack(parts).double()
    # Each of the additions rounds by at most 2^-24 of what has been added up.
    rounding = len(parts) * 2.0 ** -23 * every.abs().sum(0)
    return int(((result.double() - every.sum(0)).abs() > rounding).sum())


def _different(parameters: Sequence[torch.Tensor]) -> int:
    """Parameters of which not all ranks have the same bytes in the same order. Collective."""
    sums = torch.tensor([zlib.crc32(parameter.detach().contiguous().numpy()) for parameter in parameters])
    low, high = sums.clone(), sums.clone()
    dist.all_reduce(low, dist.ReduceOp.MIN)
    dist.all_reduce(high, dist.ReduceOp.MAX)
    return int((low != high).sum())
