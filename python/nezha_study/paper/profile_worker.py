"""One rank of Fig. 9: `python -m nezha_study.paper.profile_worker SPEC.json`.

Each gradient of a model is reduced once, in its full size. Rank 0 prints `@profile {json}` for each
model: what the library recorded; everything else on its output is somebody's log.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Dict, List

import numpy as np

from nezha_tools.bench.reference import Reference
from nezha_tools.bench.worker_records import Result, Spec
from .world import joined

_SEED = 12


@dataclass
class ProfileSpec(Spec):
    """models: by key, the elements of the gradients."""

    models: Dict[str, List[int]]


@dataclass
class Profile(Result):
    """counts: recorded all_reduces by the power of two that their bytes do not exceed. wrong: elements of
    all ranks."""

    PREFIX: ClassVar[str] = "@profile "

    model: str
    counts: Dict[str, int]
    wrong: int

    @property
    def label(self) -> str:
        """For a progress bar."""
        return self.model


def recorded(comm: Any) -> Dict[str, int]:
    """The all_reduces so far, as Communicator.stats() has them."""
    return {str(each["bytes_max"]): each["count"] for each in comm.stats()["operations"]
            if each["collective"] == "all_reduce"}


def _profile(comm: Any, model: str, tensors: List[int]) -> Profile:
    before, wrong = recorded(comm), 0
    reference = Reference("float32", "sum", comm.world_size, _SEED)
    for count in tensors:
        gradient = reference.input(comm.rank, count)
        comm.all_reduce(gradient)
        wrong += reference.wrong(gradient)
    counts = {size: count - before.get(size, 0) for size, count in recorded(comm).items()}
    total = np.array([float(wrong)])
    comm.all_reduce(total)
    return Profile(model, {size: count for size, count in counts.items() if count}, int(total[0]))


def main() -> None:
    """Joins the world that the environment describes and runs the spec."""
    spec = ProfileSpec.load(Path(sys.argv[1]))
    with joined() as comm:
        for model, tensors in spec.models.items():
            found = _profile(comm, model, tensors)
            if comm.rank == 0:
                found.emit()


if __name__ == "__main__":
    main()
