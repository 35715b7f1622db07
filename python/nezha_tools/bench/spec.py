"""What to measure, and what was measured: the two records that the bench's parts exchange.

Both travel as JSON, from the process that prints to the ranks and back.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar, Dict, List, Optional

from .worker_records import Result, Spec
from ..cli.sizes import format_size

# Collectives that combine data, that have a root, and that --in-place and --out-of-place choose for.
REDUCTIONS = ("all_reduce", "reduce_scatter", "reduce")
ROOTED = ("broadcast", "reduce", "gather", "scatter")
IN_PLACE = ("all_reduce", "reduce")
# How the pieces of an all_reduce are submitted: each after the one before has completed; all of them, and
# then waited for; all of them in one batch().
SUBMITTED = ("back to back", "asynchronous", "coalesced")


@dataclass
class BenchSpec(Spec):
    """One run: a collective over a list of sizes. The same on every rank."""

    sizes: List[int]  # bytes, whole elements
    collective: str = "all_reduce"
    dtype: str = "float32"
    op: str = "sum"
    iterations: Optional[int] = None  # None: enough for `seconds`, at least 5
    warmup: Optional[int] = None  # None: 5, fewer where one takes long
    checks: int = 1
    in_place: bool = True
    algorithm: Optional[str] = None
    root: int = 0
    seconds: float = 2.0
    most: int = 2000  # operations timed; enough for a p99, and bounds the run at the smallest sizes
    seed: int = 20240229
    cores: Optional[int] = None  # processors of each rank; None: all
    config: Dict[str, str] = field(default_factory=dict)
    rates: Dict[str, float] = field(default_factory=dict)  # device -> raw bytes per second
    pieces: int = 1  # equal parts of each size, an all_reduce each; one "operation" is all of them
    submitted: str = SUBMITTED[0]


@dataclass
class RailSample:
    """One rail during the timed operations of one size, all ranks together."""

    name: str
    device: str
    bytes: int  # as the library counts them
    wire_bytes: Optional[int] = None  # as the interfaces count them; None: cannot be told apart
    rate: Optional[float] = None  # raw bytes per second of one port; None: not known
    transport: str = "tcp"  # or "ofi", or "agg": the way to the aggregation node


@dataclass
class Sample(Result):
    """One size. `times_us[i]` is operation i's duration on the slowest rank; `mean_us` that of all
    operations on the slowest rank, divided by their number."""

    PREFIX: ClassVar[str] = "@sample "

    size: int
    count: int
    ranks: int
    times_us: List[float]
    mean_us: float
    wrong: int
    cpu_s: float  # processor seconds of all ranks during the timed operations
    rails: List[RailSample] = field(default_factory=list)
    cores: int = 0  # that a rank might use, the smallest number of all ranks; 0: not known
    hosts: int = 0  # that have the ranks; 0: not known, and taken for as many

    @property
    def label(self) -> str:
        """What a progress bar shows of it."""
        return format_size(self.size)

    @classmethod
    def from_dict(cls, data: Dict[str, Any]) -> "Sample":
        """The inverse of dataclasses.asdict."""
        rails = [RailSample(**rail) for rail in data.pop("rails", [])]
        return cls(rails=rails, **data)
