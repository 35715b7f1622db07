"""What has to be measured: jobs, each in a lab of its own, with what they will take. Pure."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Dict, List, Sequence, Tuple

from nezha_tools.bench.formulas import bus_factor
from .combinations import PAIRS, Combination

_SHORT = [4, 16, 64, 256, 1 << 10, 4 << 10]
# Twice the one before where the second rail may enter, four times elsewhere.
SIZES = _SHORT + [1 << power for power in (14, 15, 16, 17, 18, 19, 20, 21, 22, 24, 26)]
TABLE_SIZES = [1 << 10, 8 << 20, 64 << 20]  # of Table I
LONG = 2 << 20  # from here on the number of operations is chosen here, and not by time
_TRIALS = 16  # operations in which a communicator with several ways has tried each four times
_FEWEST = 5  # timed operations, as the bench has it
_SHARES = 5  # columns of Table I
_LAB_S, _OVERHEAD_S, _WARM_S = 5.0, 0.3, 0.5  # of a lab, of a size, of its first operations
_PAYLOAD = 0.95  # of a wire's rate


@dataclass(frozen=True)
class Settings:
    """What all measurements of one folder have in common. mbits: rate of a rail in Mbit/s; largest: the
    largest operation in bytes; seconds: of timed operations for each size."""

    mbits: int
    largest: int = 64 << 20
    seconds: float = 0.5

    def as_dict(self) -> Dict[str, Any]:
        """For JSON."""
        return asdict(self)


@dataclass(frozen=True)
class Job:
    """One measurement. kind: "curve", all sizes of a combination, or "shares", its row of Table I."""

    kind: str
    nodes: int
    combination: Combination

    @property
    def key(self) -> str:
        """The name of its file: `curve-4-TR`."""
        return f"{self.kind}-{self.nodes}-{self.combination.key}"

    @property
    def title(self) -> str:
        """For people."""
        what = "" if self.kind == "curve" else ", fixed shares"
        return f"{self.combination.name}, {self.nodes} nodes{what}"

    def sizes(self, settings: Settings) -> List[int]:
        """Bytes of its operations, ascending; at least one."""
        sizes = SIZES if self.kind == "curve" else TABLE_SIZES
        return [size for size in sizes if size <= settings.largest] or sizes[:1]

    def parts(self, settings: Settings) -> List[Tuple[List[int], int]]:
        """(sizes, operations before the timed ones, 0 for by time): short sizes, then long ones."""
        sizes = self.sizes(settings)
        warm = 2 if self.combination.is_alone else _TRIALS
        parts = [([size for size in sizes if size < LONG], 0),
                 ([size for size in sizes if size >= LONG], warm)]
        return [part for part in parts if part[0]]

    def records(self, settings: Settings) -> int:
        """How many samples it hands out."""
        return len(self.sizes(settings)) * (1 if self.kind == "curve" else _SHARES)

    def estimate(self, settings: Settings) -> float:
        """Seconds that it takes where the wires are the limit."""
        if self.kind == "shares":
            # Seldom more than one rail's speed: four of the five columns have almost all on one.
            each = [_size_s(self.nodes, 1, size, settings, 5) for size in self.sizes(settings)]
            return _LAB_S + _SHARES * sum(each)
        rails = len(self.combination.key)
        return _LAB_S + sum(_size_s(self.nodes, rails, size, settings, warm)
                            for sizes, warm in self.parts(settings) for size in sizes)


def operation_s(nodes: int, rails: int, size: int, settings: Settings) -> float:
    """Seconds of an all_reduce where the wires are the limit."""
    return 1e-4 + bus_factor("all_reduce", nodes) * size * 8 / (rails * settings.mbits * 1e6 * _PAYLOAD)


def _size_s(nodes: int, rails: int, size: int, settings: Settings, warm: int) -> float:
    """Seconds of one size, with the operations before the timed ones and the one that is checked."""
    operation = operation_s(nodes, rails, size, settings)
    before = warm * operation if warm else max(_WARM_S, _FEWEST * operation)
    return _OVERHEAD_S + before + max(settings.seconds, _FEWEST * operation) + operation


def curves(combinations: Sequence[Combination], nodes: Sequence[int]) -> List[Job]:
    """Every combination on every number of nodes."""
    return [Job("curve", count, each) for count in nodes for each in combinations]


def shares(combinations: Sequence[Combination], nodes: Sequence[int]) -> List[Job]:
    """The pairs of unequal networks with fixed shares, on 4 nodes as in the paper where they are among
    `nodes`, else on the most of them."""
    count = 4 if 4 in nodes else max(nodes)
    return [Job("shares", count, each) for each in PAIRS if each in combinations]


def union(plans: Sequence[Sequence[Job]]) -> List[Job]:
    """The jobs of several figures, each once, in their order."""
    return list(dict.fromkeys(job for plan in plans for job in plan))
