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

from nezha_tools.bench.driver import Comm, RailCount
from nezha_tools.bench.counters import transmitted_bytes
from nezha_tools.bench.measure import measure
from nezha_tools.bench.spec import BenchSpec, Sample

_OPS = {"sum": dist.ReduceOp.SUM, "prod": dist.ReduceOp.PRODUCT, "min": dist.ReduceOp.MIN,
        "max": dist.ReduceOp.MAX, "band": dist.ReduceOp.BAND, "bor": dist.ReduceOp.BOR,
        "bxor": dist.ReduceOp.BXOR}


class GlooComm(Comm):
    """What the bench needs, over torch.distributed. In place only."""

    def __init__(self, spec: BenchSpec) -> None:
        dist.init_process_group("gloo", init_method="env://")
        self.rank = dist.get_rank()
        self.world_size = dist.get_world_size()
        self._devices = sorted(spec.rates)

    def all_reduce(self, x: Any, op: str = "sum", *, out: Any = None,
                   algorithm: Optional[str] = None) -> None:
        """Reduces the NumPy array `x` in place."""
        dist.all_reduce(torch.from_numpy(x), _OPS[op])

    def barrier(self) -> None:
        """Waits for every rank."""
        dist.barrier()

    def rails(self) -> List[RailCount]:
        """The lab's devices. Gloo counts no bytes, so the interfaces' counters stand in, read by one rank
        of a node."""
        sent = transmitted_bytes() if os.environ["LOCAL_RANK"] == "0" else {}
        return [{"name": device, "device": device, "transport": "tcp",
                 "bytes_sent": sent.get(device, 0)} for device in self._devices]


def main() -> None:
    """Joins, measures, leaves."""
    spec = BenchSpec.load(Path(sys.argv[1]))
    torch.set_num_threads(1)
    comm = GlooComm(spec)
    measure(comm, spec, Sample.emit if comm.rank == 0 else None)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
