"""One rank of a training bench: `python -m nezha_tools.bench.training_worker SPEC.json`.

Rank 0 prints one line a step, `@step {json}`; everything else on its output is somebody's log.
"""

from __future__ import annotations

import datetime
import sys
from pathlib import Path
from typing import Dict, Iterator, List

import torch
import torch.distributed as dist

from .counters import transmitted_bytes
from ..cli.errors import BenchError
from .training_spec import Schedule, Step, TrainSpec
from .training_steps import record, replay, train

_PATIENCE = datetime.timedelta(seconds=600)  # a real step of a large model takes minutes


def _join(spec: TrainSpec) -> None:
    """The world that the environment describes; one of this process alone for a recording."""
    if not hasattr(dist.Backend, "NEZHA"):  # run from a source tree, where no entry point says so
        from nezha.torch.register import register_backend

        register_backend()
    if spec.mode == "record":
        dist.init_process_group("nezha", store=dist.HashStore(), rank=0, world_size=1)
    else:
        dist.init_process_group(spec.backend, timeout=_PATIENCE)


def _sent(spec: TrainSpec) -> Dict[str, int]:
    """Bytes that this rank has sent by rail: counted by Nezha, or for Gloo by the interfaces."""
    if spec.backend != "nezha":
        counters = transmitted_bytes()
        return {device: counters.get(device, 0) for device in spec.devices}
    from nezha.torch import communicator

    return {rail["name"]: rail["bytes_sent"] for rail in communicator().rails()}


def _algorithms(spec: TrainSpec) -> List[str]:
    """By which the latest all_reduces ran."""
    if spec.backend != "nezha":
        return []
    from nezha.torch import communicator

    return sorted({each["algorithm"] for each in communicator().flight()["operations"]
                   if each["collective"] == "all_reduce"})


def _joined(step: Step, before: Dict[str, int], after: Dict[str, int]) -> Step:
    """The step of all ranks: the slowest's seconds, everybody's bytes. Collective."""
    times = torch.tensor([step.seconds, step.active_s, step.waiting_s], dtype=torch.float64)
    counts = torch.tensor([step.wrong] + [after[name] - before[name] for name in after])
    dist.all_reduce(times, dist.ReduceOp.MAX)
    dist.all_reduce(counts)
    wrong, *sent = counts.tolist()
    return Step(*times.tolist(), wrong, dict(zip(after, sent)))


def _measured(spec: TrainSpec, steps: Iterator[Step]) -> None:
    before = _sent(spec)
    for number, step in enumerate(steps):
        joined = _joined(step, before, _sent(spec))
        joined.algorithms = _algorithms(spec)
        if dist.get_rank() == 0 and number:
            joined.emit()
        before = _sent(spec)


def main() -> None:
    """Joins, measures, leaves; the exit status is 0 when every step has been measured."""
    spec = TrainSpec.load(Path(sys.argv[1]))
    torch.set_num_threads(spec.threads)
    _join(spec)
    try:
        if spec.mode == "record":
            result: List[Schedule] = []
            for step in record(spec, result):
                step.emit()
            result[0].save(Path(spec.schedule))
        elif spec.mode == "replay":
            _measured(spec, replay(spec, Schedule.load(Path(spec.schedule))))
        else:
            _measured(spec, train(spec))
    except BenchError as error:
        sys.exit(str(error))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
