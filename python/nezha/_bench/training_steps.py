"""Training steps as a rank makes them: recorded without communication, replayed, or real.

Needs torch. Seconds are those of this rank; worker.py joins the ranks'. train() and replay() yield
spec.steps + 1 steps, of which the first warms everything up: DDP cuts its final buckets after it.
"""

from __future__ import annotations

import time
from statistics import median
from typing import Iterator, List, Sequence, Tuple

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from . import training_models
from .training_profile import union_seconds
from .training_spec import Schedule, Step, TrainSpec

_SEED = 20240229
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
    """The real training, with a hook that does what DDP does without one and looks at the clock."""
    world = dist.get_world_size()
    training = _Training(spec, dist.get_rank())
    intervals: List[Interval] = []
    begun: List[float] = []

    def timed(_, bucket):  # type: ignore[no-untyped-def]  # as above
        begun.append(time.perf_counter())
        return _all_reduce(bucket.buffer().div_(world), begun[-1], intervals)

    training.ddp.register_comm_hook(None, timed)
    for _ in range(spec.steps + 1):
        intervals.clear()
        begun.clear()
        dist.barrier()
        begin = time.perf_counter()
        training.until_gradients()
        complete = time.perf_counter()
        training.update()
        end = time.perf_counter()
        yield Step(end - begin, union_seconds(intervals), complete - begun[-1],
                   _different(list(training.ddp.parameters())))


def replay(spec: TrainSpec, schedule: Schedule) -> Iterator[Step]:
    """The schedule's all-reduces at their times, sleeping where the recorded step computed."""
    rank, world = dist.get_rank(), dist.get_world_size()
    buffers = [torch.empty(size // 4) for size in schedule.buckets]
    for _ in range(spec.steps + 1):
        for buffer in buffers:
            buffer.fill_(rank + 1.0)
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
        wrong = sum(int((buffer != world * (world + 1) / 2).sum()) for buffer in buffers)
        yield Step(end - begin, union_seconds(intervals), complete - waiting, wrong)


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


def _different(parameters: Sequence[torch.Tensor]) -> int:
    """Parameters that are not the same on all ranks. Collective."""
    sums = torch.stack([parameter.detach().double().sum() for parameter in parameters])
    low, high = sums.clone(), sums.clone()
    dist.all_reduce(low, dist.ReduceOp.MIN)
    dist.all_reduce(high, dist.ReduceOp.MAX)
    return int((low != high).sum())
