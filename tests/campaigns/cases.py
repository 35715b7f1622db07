"""Collectives with data in closed form, and the bits that must come out.

Element i of rank r, variant v, is a small integer that depends on all three (see pattern). Integers
are summed exactly, so the expected result is a formula. Floats get a fraction on top: their sum
depends on the order of additions, so the reference is a fault-free operation's result, which the
formula has to confirm up to rounding. Every operation is compared with it bit by bit. Variants
alternate, so that data left over from the operation before is seen.
"""

from __future__ import annotations

import zlib
from dataclasses import asdict, dataclass, replace
from typing import Any, Callable, Dict, List, Optional

import numpy

VARIANTS = 2
_ROUNDING = {"float32": 1e-5, "float64": 1e-13}
_FRACTION = 0.1 + 1.0 / 3.0


@dataclass(frozen=True)
class Case:
    """A collective. elements: of a block; kinds with a block for each rank move world as many."""

    kind: str
    elements: int
    dtype: str = "float32"
    algorithm: Optional[str] = None
    async_op: bool = False

    def to_json(self) -> Dict[str, Any]:
        """For Case(**...)."""
        return asdict(self)


def pattern(elements: int, dtype: str, rank: int, variant: int) -> "numpy.ndarray[Any, Any]":
    """Data of one rank, [elements]."""
    index = numpy.arange(elements, dtype=numpy.int64)
    values = (index * 31 + (index >> 8) * 7 + rank * 17 + variant * 101) % 251
    if numpy.dtype(dtype).kind == "f":
        return (values + _FRACTION * (rank + 1)).astype(dtype)
    return values.astype(dtype)


class Prepared:
    """The buffers of one case on one rank; expected(v) says what variant v must give."""

    def __init__(self, case: Case, rank: int, world: int) -> None:
        self.case, self.rank, self.world = case, rank, world
        self._blocks = 1 if case.kind in ("all_reduce", "broadcast", "all_gather") else world
        self._sources = [self._input(v) for v in range(VARIANTS)]
        self._formulas = [self._formula(v) for v in range(VARIANTS)]
        self._references: List[Optional["numpy.ndarray[Any, Any]"]] = [None] * VARIANTS
        self._data = numpy.empty_like(self._sources[0])
        in_place = case.kind in ("all_reduce", "broadcast")
        self._out = self._data if in_place else numpy.empty_like(self._formulas[0])
        self.result_bytes = self._out.nbytes

    def _input(self, variant: int) -> "numpy.ndarray[Any, Any]":
        return pattern(self.case.elements * self._blocks, self.case.dtype, self.rank, variant)

    def _formula(self, variant: int) -> "numpy.ndarray[Any, Any]":
        case, world = self.case, self.world
        inputs = [pattern(case.elements * self._blocks, case.dtype, r, variant)
                  for r in range(world)]
        mine = slice(self.rank * case.elements, (self.rank + 1) * case.elements)
        if case.kind == "broadcast":
            return inputs[variant % world]
        if case.kind == "all_gather":
            return numpy.concatenate(inputs)
        if case.kind == "all_to_all":
            return numpy.concatenate([each[mine] for each in inputs])
        wide = numpy.float64 if case.dtype.startswith("float") else numpy.int64
        total = numpy.sum([each.astype(wide) for each in inputs], axis=0).astype(case.dtype)
        return total if case.kind == "all_reduce" else total[mine]

    def fill(self, variant: int) -> None:
        """New input, and an output that cannot be right by chance."""
        numpy.copyto(self._data, self._sources[variant])
        if self._out is not self._data:
            self._out.view(numpy.uint8).fill(0xA5)
        elif self.case.kind == "broadcast" and self.rank != variant % self.world:
            self._data.view(numpy.uint8).fill(0xA5)

    def start(self, comm: Any, variant: int) -> Any:
        """Calls the collective; with async_op its Work."""
        case = self.case
        options: Dict[str, Any] = {"algorithm": case.algorithm, "async_op": case.async_op}
        call: Callable[..., Any] = getattr(comm, case.kind)
        if case.kind == "all_reduce":
            return call(self._data, **options)
        if case.kind == "broadcast":
            return call(self._data, variant % self.world, **options)
        return call(self._data, out=self._out, **options)

    def right(self, variant: int) -> bool:
        """Whether the result has the bits of the reference, which the first one here becomes."""
        reference = self._references[variant]
        if reference is not None:
            return numpy.array_equal(self._out.view(numpy.uint8), reference.view(numpy.uint8))
        formula = self._formulas[variant]
        rounding = 0.0
        if self.case.kind in ("all_reduce", "reduce_scatter"):
            rounding = _ROUNDING.get(self.case.dtype, 0.0)
        if not numpy.allclose(self._out, formula, rtol=rounding, atol=0.0):
            return False
        self._references[variant] = self._out.copy()
        return True

    def hashes(self) -> List[Optional[int]]:
        """CRC-32 of the references: equal on all ranks where the collective's results are."""
        return [None if each is None else zlib.crc32(each.tobytes()) for each in self._references]


def mixed(largest: int) -> List[Case]:
    """Kinds, types and sizes of a fault campaign; largest: elements of 4 bytes."""
    return [
        Case("all_reduce", largest, "float32", "ring"),
        Case("all_reduce", largest // 4, "float32", "ring", async_op=True),
        Case("all_reduce", largest // 4, "int32"),
        Case("all_reduce", largest // 16, "float64", "ring"),
        Case("all_reduce", 2, "int32"),
        Case("reduce_scatter", largest // 4, "int32"),
        Case("all_gather", largest // 4, "float32"),
        Case("all_to_all", largest // 4, "int32"),
        Case("broadcast", largest // 2, "int32"),
    ]


def chosen(largest: int, algorithm: Optional[str] = None) -> List[Case]:
    """The same without all_to_all, all by one algorithm, or by what the library chooses."""
    return [replace(case, algorithm=algorithm) for case in mixed(largest) if case.kind != "all_to_all"]
