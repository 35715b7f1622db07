"""Random inputs whose reduced result is known exactly, and the count of elements that differ.

Every rank can produce every other rank's input from (seed, rank, block), so the reference needs
no communication. Values are chosen so that no order of summation rounds: whole numbers whose
partial sums stay inside the mantissa, powers of two for products, the full range (wrapping) for
integers. A library that is right therefore agrees in every bit, in every dtype.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Iterator, Tuple

import numpy as np

BLOCK = 1 << 20  # elements produced at a time: bounds the memory of the check

# Largest whole number up to which every whole number is exact.
_EXACT = {"float64": 1 << 52, "float32": 1 << 24, "float16": 1 << 11, "bfloat16": 1 << 8,
          "float8_e4m3fn": 1 << 4, "float8_e5m2": 1 << 3}
_FROM_ML_DTYPES = {"bfloat16": 2, "float8_e4m3fn": 1, "float8_e5m2": 1}  # bytes of one
_INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
_BITWISE = {"band": np.bitwise_and, "bor": np.bitwise_or, "bxor": np.bitwise_xor}
_COMBINE = {
    "sum": np.add, "avg": np.add, "prod": np.multiply, "min": np.minimum, "max": np.maximum,
    **_BITWISE,
}
DTYPES = tuple(_EXACT) + _INTEGERS
OPS = tuple(_COMBINE)
_ALIASES = {"float": "float32", "double": "float64", "half": "float16", "bf16": "bfloat16",
            "fp16": "float16", "fp32": "float32", "fp64": "float64",
            "f8e4m3": "float8_e4m3fn", "f8e5m2": "float8_e5m2"}


def dtype_name(text: str) -> str:
    """The full name of a dtype (`float`, `half`, `bf16` and the like are understood)."""
    name = _ALIASES.get(text, text)
    if name not in DTYPES:
        raise ValueError(f"dtype {text!r}: one of {', '.join(DTYPES)}")
    return name


def numpy_dtype(name: str) -> np.dtype:
    """The NumPy dtype. ml_dtypes has bfloat16 and float8; ValueError says how to get it."""
    if name not in _FROM_ML_DTYPES:
        return np.dtype(name)
    try:
        import ml_dtypes
    except ImportError as error:
        raise ValueError(f"{name} in NumPy needs ml_dtypes: pip install ml_dtypes") from error
    return np.dtype(getattr(ml_dtypes, name))


def itemsize(name: str) -> int:
    """Bytes of one element."""
    return _FROM_ML_DTYPES.get(name) or np.dtype(name).itemsize


@dataclass(frozen=True)
class Reference:
    """Inputs and results of one (dtype, op, world size, seed)."""

    dtype: str
    op: str
    ranks: int
    seed: int

    def __post_init__(self) -> None:
        if self.op not in OPS:
            raise ValueError(f"op {self.op!r}: one of {', '.join(OPS)}")
        if self.op in _BITWISE and self.dtype not in _INTEGERS:
            raise ValueError(f"op {self.op} needs an integer dtype, not {self.dtype}")
        if self.op == "avg" and self.dtype in _INTEGERS:
            raise ValueError(f"op avg needs a floating-point dtype, not {self.dtype}")
        if self.dtype in _EXACT and _EXACT[self.dtype] < self._unit():
            raise ValueError(f"{self.op} of {self.dtype} over {self.ranks} ranks has no exact "
                             "reference; check with a wider dtype")

    def input(self, rank: int, count: int) -> np.ndarray:
        """Rank `rank`'s input: `count` elements in the wire dtype."""
        out = np.empty(count, numpy_dtype(self.dtype))
        for start, stop in _blocks(count):
            out[start:stop] = self._block(rank, start, stop)
        return out

    def expected(self, count: int) -> Iterator[Tuple[int, int, np.ndarray]]:
        """(start, stop, exact result) over the whole range, a block at a time."""
        combine = _COMBINE[self.op]
        for start, stop in _blocks(count):
            total = self._block(0, start, stop)
            for rank in range(1, self.ranks):
                with np.errstate(over="ignore"):
                    total = combine(total, self._block(rank, start, stop))
            if self.op == "avg":
                total = total / self.ranks
            yield start, stop, total

    def wrong(self, result: Any) -> int:
        """How many elements of `result` (1-d, wire dtype) differ from the reference."""
        return sum(int(np.count_nonzero(result[start:stop].astype(exact.dtype) != exact))
                   for start, stop, exact in self.expected(len(result)))

    def _wide(self) -> np.dtype:
        """The type the reference is worked out in: integers wrap in their own."""
        return np.dtype("float32" if self.dtype in ("float16", *_FROM_ML_DTYPES) else self.dtype)

    def _unit(self) -> int:
        # An average must come out whole, so each input is a multiple of the number of ranks.
        return self.ranks if self.op == "avg" else 1

    def _block(self, rank: int, start: int, stop: int) -> np.ndarray:
        generator = np.random.SFC64([self.seed, rank, start // BLOCK])
        count = stop - start
        if self.op == "prod" and self.dtype in _EXACT:
            return self._powers(generator, rank, count)
        if self.dtype in _INTEGERS:
            return _random_bits(generator, count, self._wide())
        return self._whole_numbers(generator, rank, count)

    def _whole_numbers(self, generator: np.random.SFC64, rank: int, count: int) -> np.ndarray:
        """Multiples of the unit whose sum over all ranks cannot leave the budget."""
        unit, wide, budget = self._unit(), self._wide(), _EXACT[self.dtype]
        active = min(self.ranks, budget // unit)
        if rank >= active:
            return np.zeros(count, wide)
        # Powers of two are cut out of random bits, much faster than any other range.
        power = min((budget // (unit * active)).bit_length() - 1, 29)
        raw = _random_bits(generator, count, np.dtype("int32"))
        values = (raw & ((2 << power) - 1)) - (1 << power)
        return values.astype(wide) * wide.type(unit)

    def _powers(self, generator: np.random.SFC64, rank: int, count: int) -> np.ndarray:
        """Signed powers of two. So many ranks move the exponent as it has room for: 14 in float16."""
        raw = _random_bits(generator, count, np.dtype("uint8"))
        signs = np.where(raw & 1, self._wide().type(1), self._wide().type(-1))
        if rank >= (6 if self.dtype == "float8_e4m3fn" else 14):
            return signs
        return np.ldexp(signs, ((raw >> 1) % 3).astype(np.int32) - 1)


def _random_bits(generator: np.random.SFC64, count: int, dtype: np.dtype) -> np.ndarray:
    """`count` elements of an integer dtype, every bit random."""
    words = -(-count * dtype.itemsize // 8)
    return generator.random_raw(words).view(dtype)[:count]


def _blocks(count: int) -> Iterator[Tuple[int, int]]:
    for start in range(0, count, BLOCK):
        yield start, min(start + BLOCK, count)
