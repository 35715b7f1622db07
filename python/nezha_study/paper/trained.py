"""What replayed trainings gave: speeds, and times of single all_reduces. Pure."""

from __future__ import annotations

from typing import Any, Dict, List, Mapping, Optional

from nezha_tools.bench.formulas import bus_factor, median
from .models import Model
from .training import TrainJob


class Trainings:
    """Looks up results by job."""

    def __init__(self, results: Mapping[str, Dict[str, Any]]) -> None:
        """results: by Job.key."""
        self._results = results

    def images_per_s(self, job: TrainJob, model: Model, batch: int) -> Optional[float]:
        """Images that all ranks train in a second, of the median step. None where none was measured."""
        run = self._run(job, model, batch)
        return None if run is None else job.nodes * job.units * batch / median(run["steps_s"])

    def gain(self, job: TrainJob, base: TrainJob, model: Model, batch: int) -> Optional[float]:
        """By which part `job` is faster than `base`: 0.5 is one and a half times its speed. None where
        one of them was not measured."""
        mine, theirs = (self.images_per_s(each, model, batch) for each in (job, base))
        return mine / theirs - 1 if mine and theirs else None

    def tensors_s(self, job: TrainJob, model: Model, batch: int) -> List[float]:
        """Median seconds of each gradient's all_reduce, in the model's order; empty where nothing was
        measured."""
        run = self._run(job, model, batch)
        return [] if run is None else [median(each) for each in run["tensors_s"]]

    def shares(self, job: TrainJob, model: Model, batch: int) -> Optional[List[float]]:
        """The part of the data that each network carried, in the order of the combination's letters: from
        bytes, as Curves.shares() has it. None where nothing was measured."""
        run = self._run(job, model, batch)
        if run is None:
            return None
        crossings = [1.0 if letter == "A" else bus_factor("all_reduce", job.nodes)
                     for letter in job.combination.key]
        data = [sent / each for sent, each in zip(run["sent"], crossings)]
        return [each / sum(data) for each in data] if sum(data) else None

    def _run(self, job: TrainJob, model: Model, batch: int) -> Optional[Dict[str, Any]]:
        runs = self._results.get(job.key, {}).get("runs", [])
        return next((run for run in runs if (run["model"], run["batch"]) == (model.key, batch)), None)
