"""One rank of a replayed training: `python -m nezha_study.paper.train_worker SPEC.json`.

A step computes, which is slept, and then has an all_reduce for each gradient, one after the other, as the
paper's Gloo has them. Rank 0 prints `@train {json}` for each run; everything else on its output is
somebody's log. Every element of every step is compared with an exact reference, outside of the times.
"""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Dict, List

import numpy as np

from nezha_tools.bench.counters import transmitted_bytes
from nezha_tools.bench.reference import Reference
from nezha_tools.bench.worker_records import Result, Spec
from .world import joined

_SEED = 11
_SCALES = 4  # inputs of successive steps differ by powers of two, which keep sums exact


@dataclass
class TrainSpec(Spec):
    """runs: of each model its key, the elements of its gradients in the order of all_reduces, and the
    seconds that a step computes with each batch. warmup: steps that compute nothing, before the first
    batch of a model; steps: timed ones, with each batch. devices: whose bytes rank 0 counts."""

    runs: List[Dict[str, Any]]
    warmup: int
    steps: int
    config: Dict[str, str]
    devices: List[str]


@dataclass
class Trained(Result):
    """A model with one batch. steps_s: each step's seconds; tensors_s: of each all_reduce, by gradient,
    in each step; both of the slowest rank. sent: bytes that each device of rank 0's node sent meanwhile.
    wrong: elements of all ranks and steps."""

    PREFIX: ClassVar[str] = "@train "

    model: str
    batch: int
    steps_s: List[float]
    tensors_s: List[List[float]]
    sent: List[int]
    wrong: int

    @property
    def label(self) -> str:
        """For a progress bar."""
        return f"{self.model} {self.batch}"


class Replay:
    """The gradients of one model on one rank."""

    def __init__(self, comm: Any, tensors: List[int]) -> None:
        reference = Reference("float32", "sum", comm.world_size, _SEED)
        total = sum(tensors)
        self._comm = comm
        self._in, self._out = reference.input(comm.rank, total), np.empty(total, np.float32)
        self._exact = np.concatenate([exact for _, _, exact in reference.expected(total)])
        ends = np.cumsum(tensors)
        self._slices = [slice(end - count, end) for end, count in zip(ends, tensors)]
        self._step = 0
        self.wrong = 0

    def step(self, compute_s: float) -> List[float]:
        """Seconds of the step, then of each of its all_reduces."""
        factor = np.float32(2.0 if (self._step // _SCALES) % 2 == 0 else 0.5)
        self._step += 1
        self._in *= factor
        self._exact *= factor
        self._out.view(np.uint8)[...] = 0xA5  # a result that is not written is wrong
        self._comm.barrier()
        begin = time.monotonic()
        time.sleep(compute_s)
        seconds = [self._reduce(part) for part in self._slices]
        seconds.insert(0, time.monotonic() - begin)
        self.wrong += int(np.count_nonzero(self._out != self._exact))
        return seconds

    def _reduce(self, part: slice) -> float:
        begin = time.monotonic()
        self._comm.all_reduce(self._in[part], out=self._out[part])
        return time.monotonic() - begin


def _run(comm: Any, spec: TrainSpec, run: Dict[str, Any]) -> None:
    """All batches of one model."""
    replay = Replay(comm, run["tensors"])
    for _ in range(spec.warmup):
        replay.step(0.0)
    for batch, compute_s in run["compute_s"].items():
        before = transmitted_bytes()
        seconds = np.array([replay.step(compute_s) for _ in range(spec.steps)])
        after = transmitted_bytes()
        comm.all_reduce(seconds, op="max")
        wrong = np.array([float(replay.wrong)])
        comm.all_reduce(wrong)
        if comm.rank == 0:
            Trained(run["model"], int(batch), seconds[:, 0].tolist(), seconds[:, 1:].T.tolist(),
                    [after[device] - before[device] for device in spec.devices], int(wrong[0])).emit()


def main() -> None:
    """Joins the world that the environment describes and runs the spec."""
    spec = TrainSpec.load(Path(sys.argv[1]))
    with joined(spec.config) as comm:
        for run in spec.runs:
            _run(comm, spec, run)


if __name__ == "__main__":
    main()
