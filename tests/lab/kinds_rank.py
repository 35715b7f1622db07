"""One rank of test_three_kinds.py: an all_reduce of every dtype by every operator, each element compared
with what NumPy computes of all ranks' inputs; then one JSON line of what each kind of rail has sent.

The argument is a JSON object of configuration values. Inputs are small whole numbers, so that every order
of operands gives the same bits.
"""

from __future__ import annotations

import functools
import json
import sys
from typing import Any, Iterator, Tuple

import numpy

import nezha

_BYTES = 1 << 18
_INTEGERS = ["int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"]
_FLOATS = ["float16", "float32", "float64"]
_BY_OPERATOR = {"sum": numpy.add, "prod": numpy.multiply, "min": numpy.minimum, "max": numpy.maximum,
                "band": numpy.bitwise_and, "bor": numpy.bitwise_or, "bxor": numpy.bitwise_xor}
_OF_BITS = ("band", "bor", "bxor")


def data(dtype: str, op: str, rank: int) -> Any:
    """The input of one rank, which differs by element and rank."""
    index = numpy.arange(_BYTES // numpy.dtype(dtype).itemsize, dtype=numpy.int64)
    mixed = index * 31 + (index >> 8) * 7 + rank * 17
    # Six factors of at most 2, and six addends of at most 5, have a place in every dtype.
    return (mixed % 2 + 1 if op == "prod" else mixed % 6).astype(dtype)


def every_kind() -> Iterator[Tuple[str, str]]:
    """Dtypes and operators."""
    for dtype in _INTEGERS + _FLOATS:
        for op in _BY_OPERATOR:
            if dtype in _INTEGERS or op not in _OF_BITS:
                yield dtype, op


def main() -> None:
    """Works, checks, reports; ends with an assertion where an element is wrong."""
    with nezha.init(config=json.loads(sys.argv[1])) as comm:
        for dtype, op in every_kind():
            inputs = [data(dtype, op, rank) for rank in range(comm.world_size)]
            expected = functools.reduce(_BY_OPERATOR[op], inputs).astype(dtype)
            found = comm.all_reduce(inputs[comm.rank], op=op, out=numpy.zeros_like(expected))
            assert numpy.array_equal(found.view(numpy.uint8), expected.view(numpy.uint8)), (
                f"rank {comm.rank}: wrong bits in an all_reduce of {dtype} by {op}")
        rails, node = comm.rails(), comm.stats()["aggregation"]
        print(json.dumps({
            "tcp": sum(rail["bytes_sent"] for rail in rails
                       if rail["transport"] == "tcp" and rail["device"] != node["device"]),
            "ofi": sum(rail["bytes_sent"] for rail in rails if rail["transport"] == "ofi"),
            "node": node["bytes_sent"],
            "cut": sum(each["operations_cut"] for each in node["communicators"])}), flush=True)


if __name__ == "__main__":
    main()
