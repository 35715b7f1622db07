"""One rank of a Gloo run: `python gloo_driver.py SPEC.json`, started in every node.

Only needs torch and NumPy: the interpreter may be one in which Nezha is not installed. The loop,
the clock and the check are those of nezha_tools.bench.measure, so the timing rule is the same.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any, List, Optional

import torch
import torch.distributed as dist

# At the end: this interpreter's own packages go before those of the other.
sys.path.append(str(Path(__file__).resolve().parents[3]))

from nezha_tools.bench.driver import Comm, RailCount, interface_rails
from nezha_tools.bench.measure import measure
from nezha_tools.bench.spec import BenchSpec, Sample

PARTS = "NEZHA_BENCH_GLOO_PARTS"  # gloo.py sets it
_OPS = {"sum": dist.ReduceOp.SUM, "prod": dist.ReduceOp.PRODUCT, "min": dist.ReduceOp.MIN,
        "max": dist.ReduceOp.MAX, "band": dist.ReduceOp.BAND, "bor": dist.ReduceOp.BOR,
        "bxor": dist.ReduceOp.BXOR}


class GlooComm(Comm):
    """What the bench needs, over torch.distributed. In place only. PARTS in the environment, as
    "eth0:0.5,eth1:0.5", gives each device a process group for that part of the data."""

    def __init__(self, spec: BenchSpec) -> None:
        parts = [part.partition(":") for part in os.environ[PARTS].split(",") if part]
        dist.init_process_group("gloo", init_method="env://")
        self._groups: List[Any] = []
        self._weights = [float(weight) for _, _, weight in parts]
        for device, _, _ in parts:
            os.environ["GLOO_SOCKET_IFNAME"] = device  # read when a group is made
            self._groups.append(dist.new_group(backend="gloo"))
        self.rank = dist.get_rank()
        self.world_size = dist.get_world_size()
        self._devices = sorted(spec.rates)

    def all_reduce(self, x: Any, op: str = "sum", *, out: Any = None,
                   algorithm: Optional[str] = None) -> None:
        """Reduces the NumPy array `x` in place."""
        whole = torch.from_numpy(x)
        if x.size < len(self._groups) or not self._groups:
            dist.all_reduce(whole, _OPS[op])
            return
        ends = [round(x.size * sum(self._weights[:place + 1])) for place in range(len(self._groups))]
        works = [dist.all_reduce(whole[begin:end], _OPS[op], group=group, async_op=True)
                 for group, begin, end in zip(self._groups, [0, *ends], ends) if end > begin]
        for work in works:
            work.wait()

    def barrier(self) -> None:
        """Waits for every rank."""
        dist.barrier()

    def rails(self) -> List[RailCount]:
        """The lab's devices, as their interfaces count: Gloo counts no bytes."""
        return interface_rails(self._devices)


def main() -> None:
    """Joins, measures, leaves."""
    spec = BenchSpec.load(Path(sys.argv[1]))
    torch.set_num_threads(1)
    comm = GlooComm(spec)
    measure(comm, spec, Sample.emit if comm.rank == 0 else None)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
