"""Replayed trainings of the paper's models: what Fig. 8, Fig. 10 and Table IV are measured with.

Gradients are as many times smaller than the models' as the lab's rails are slower than the paper's
adapters, so a step sends as long as the paper's, and computes as long.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Any, Dict, List, Sequence

from nezha_tools.bench.lab_runner import BenchLab
from .combinations import Combination
from .jobs import Settings, operation_s
from .models import ALEXNET, BATCHES, MODELS, Model
from .own_job import Advance, OwnJob
from .published import number
from .train_worker import TrainSpec, Trained
from .wrong import refuse_wrong

KIND = "train"
_ADAPTER_MBITS = number("nic.T").low * 1024 * 8 / 1e6  # of the paper's Ethernet in an all_reduce
_ITEM = 4  # bytes of an element
_STEPS = 12  # timed, times Settings.seconds
_FEWEST = 2
_WARM_ALONE, _WARM = 2, 16  # steps before: with several networks every way has then been tried
_START_S, _MODEL_S = 8.0, 1.0  # of a lab and its ranks; of a model's inputs


def scale(model: Model, settings: Settings) -> float:
    """The part of the model's elements that a step reduces."""
    wanted = settings.mbits / _ADAPTER_MBITS
    return min(wanted, settings.largest / (_ITEM * max(model.tensors)))


def tensors(model: Model, settings: Settings) -> List[int]:
    """Elements of the gradients of a step, each at least one."""
    part = scale(model, settings)
    return [max(1, round(part * count)) for count in model.tensors]


def compute_s(model: Model, batch: int, settings: Settings) -> float:
    """Seconds that a step computes: the paper's, or less where `largest` makes gradients smaller."""
    return model.compute_s(batch) * scale(model, settings) * _ADAPTER_MBITS / settings.mbits


@dataclass(frozen=True)
class TrainJob(OwnJob):
    """One combination on one number of nodes. units: ranks of a node, each of which stands for an
    accelerator. shares: fixed parts of the combination's networks, `99:1`; empty: as Nezha balances
    them. With fixed shares only AlexNet's smaller batch is trained, as in the paper."""

    units: int = 1
    shares: str = ""

    @property
    def key(self) -> str:
        """The name of its file: `train-4-TR`, `train2-4-TT`, `train-4-TA-99-1`."""
        units = "" if self.units == 1 else f"{self.units}"
        shares = f"-{self.shares.replace(':', '-')}" if self.shares else ""
        return f"{self.kind}{units}-{self.nodes}-{self.combination.key}{shares}"

    @property
    def title(self) -> str:
        """For people."""
        units = "" if self.units == 1 else f", {self.units} ranks each"
        shares = f", shares {self.shares}" if self.shares else ""
        return f"{self.combination.name}, {self.nodes} nodes{units}, training{shares}"

    @property
    def models(self) -> Sequence[Model]:
        """Those that it trains."""
        return (ALEXNET,) if self.shares else MODELS

    @property
    def batches(self) -> Sequence[int]:
        """Those with which it trains each model."""
        return BATCHES[:1] if self.shares else BATCHES

    def records(self, settings: Settings) -> int:
        """One for each model and batch."""
        return len(self.models) * len(self.batches)

    def estimate(self, settings: Settings) -> float:
        """Seconds that it takes where the wires are the limit."""
        rails = 1 if self.shares else len(self.combination.key)
        total = _START_S
        for model in self.models:
            size = _ITEM * sum(tensors(model, settings))
            sends = operation_s(self.nodes, rails, size, settings)
            computes = sum(compute_s(model, batch, settings) for batch in self.batches)
            total += _MODEL_S + self._warmup * sends
            total += self._steps(settings) * (len(self.batches) * sends + computes)
        return total

    def measure(self, settings: Settings, advance: Advance) -> Dict[str, Any]:
        """Times of steps and of their all_reduces, by model and batch."""
        with BenchLab(self.nodes, self.combination.rails(settings.mbits),
                      ranks_per_node=self.units) as lab:
            path = lab.scratch / "train.json"
            self._spec(settings, [device for device, _, _ in lab.devices()]).save(path)

            def checked(found: Trained) -> None:
                model = next(each for each in self.models if each.key == found.model)
                refuse_wrong(self, _ITEM * max(tensors(model, settings)), found.wrong)
                advance(found)

            found: List[Trained] = lab.launch(
                [sys.executable, "-m", "nezha_study.paper.train_worker", str(path)],
                [{} for _ in range(lab.lab.ranks)], checked, parse=Trained.parse)
            return {"runs": [{"model": each.model, "batch": each.batch, "steps_s": each.steps_s,
                              "tensors_s": each.tensors_s, "sent": each.sent} for each in found],
                    "lab": lab.facts()}

    @property
    def _warmup(self) -> int:
        return _WARM_ALONE if self.combination.is_alone or self.shares else _WARM

    def _steps(self, settings: Settings) -> int:
        return max(_FEWEST, round(_STEPS * settings.seconds))

    def _spec(self, settings: Settings, devices: List[str]) -> TrainSpec:
        runs = [{"model": model.key, "tensors": tensors(model, settings),
                 "compute_s": {str(batch): compute_s(model, batch, settings) for batch in self.batches}}
                for model in self.models]
        return TrainSpec(runs, self._warmup, self._steps(settings), self._config(), devices)

    def _config(self) -> Dict[str, str]:
        if not self.shares:
            return self.combination.config
        weights = [float(each) for each in self.shares.split(":")]
        if "A" not in self.combination.key:
            return {"policy": "static", "weights": self.shares}
        share = weights[self.combination.key.index("A")] / sum(weights)
        return {**self.combination.config, "aggregator_share": f"{share:.6g}"}


def trained_nodes(nodes: Sequence[int]) -> List[int]:
    """The paper's 4 and 6, those of them that are among `nodes`; where none is, the most of them."""
    return [each for each in nodes if each in (4, 6)] or [max(nodes)]


def trainings(combinations: Sequence[Combination], nodes: Sequence[int]) -> List[TrainJob]:
    """Every combination on every number of nodes that the paper trains on."""
    return [TrainJob(KIND, count, each) for count in trained_nodes(nodes) for each in combinations]
