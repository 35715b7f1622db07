"""One rank of an MLX run: `python mlx_driver.py SPEC.json`, started in every node.

Only needs MLX and NumPy: the interpreter may be one in which Nezha is not installed. The loop, the clock
and the check are those of nezha_tools.bench.measure, so the timing rule is the same. An operation
includes the copies of its data and of its result: MLX has no operations in place.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any, List, Optional

import mlx.core as mx
import numpy as np

# At the end: this interpreter's own packages go before those of the other.
sys.path.append(str(Path(__file__).resolve().parents[3]))

from nezha_tools.bench.driver import Comm, RailCount, interface_rails
from nezha_tools.bench.measure import measure
from nezha_tools.bench.spec import BenchSpec, Sample

_OPS = {"sum": mx.distributed.all_sum, "min": mx.distributed.all_min, "max": mx.distributed.all_max}


class MlxComm(Comm):
    """What the bench needs, over the ring of MLX."""

    def __init__(self, spec: BenchSpec) -> None:
        mx.set_default_device(mx.cpu)
        self._group = mx.distributed.init(strict=True, backend="ring")
        self.rank = self._group.rank()
        self.world_size = self._group.size()
        self._devices = sorted(spec.rates)

    def all_reduce(self, x: Any, op: str = "sum", *, out: Any = None,
                   algorithm: Optional[str] = None) -> None:
        """Reduces the NumPy array `x` in place."""
        given = mx.array(x, dtype=getattr(mx, x.dtype.name))  # without a type, float64 becomes float32
        np.copyto(x, np.asarray(_OPS[op](given, group=self._group)))

    def barrier(self) -> None:
        """Waits for every rank."""
        mx.eval(mx.distributed.all_sum(mx.zeros(1), group=self._group))

    def rails(self) -> List[RailCount]:
        """The lab's devices, as their interfaces count: MLX counts no bytes."""
        return interface_rails(self._devices)


def main() -> None:
    """Joins, measures, leaves."""
    spec = BenchSpec.load(Path(sys.argv[1]))
    comm = MlxComm(spec)
    measure(comm, spec, Sample.emit if comm.rank == 0 else None)


if __name__ == "__main__":
    main()
