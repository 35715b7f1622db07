"""The reference data: exact in every dtype whatever the order, and able to find one bad element."""

import numpy as np
import pytest

from nezha_tools.bench.reference import BLOCK, DTYPES, OPS, Reference, dtype_name, itemsize, numpy_dtype

COUNT = 4099
_BITWISE = ("band", "bor", "bxor")
_STEP = {"sum": np.add, "avg": np.add, "prod": np.multiply, "min": np.minimum, "max": np.maximum,
         "band": np.bitwise_and, "bor": np.bitwise_or, "bxor": np.bitwise_xor}


def _dtype(name):
    if name.startswith(("bfloat", "float8")):
        pytest.importorskip("ml_dtypes")
    return numpy_dtype(name)


def _reduce(inputs, op, dtype):
    """Rounds to the wire dtype after every step, as a ring that ships partial results does."""
    total = inputs[0]
    for array in inputs[1:]:
        with np.errstate(over="ignore"):
            total = _STEP[op](total, array).astype(dtype)
    if op == "avg":
        return (total.astype(np.float64) / len(inputs)).astype(dtype)
    return total


@pytest.mark.parametrize("ranks", [1, 2, 3, 4, 7, 16])
@pytest.mark.parametrize("op", OPS)
@pytest.mark.parametrize("name", DTYPES)
def test_every_order_of_reduction_gives_the_reference(name, op, ranks):
    dtype = _dtype(name)
    if (op in _BITWISE) != (dtype.kind in "iu") and (op in _BITWISE or op == "avg"):
        with pytest.raises(ValueError, match="floating-point" if op == "avg" else "integer"):
            Reference(name, op, ranks, 1)
        return
    if (name, op, ranks) == ("float8_e5m2", "avg", 16):
        with pytest.raises(ValueError, match="wider dtype"):
            Reference(name, op, ranks, 1)
        return
    reference = Reference(name, op, ranks, 1)
    inputs = [reference.input(rank, COUNT) for rank in range(ranks)]
    orders = [range(ranks), reversed(range(ranks)), np.random.default_rng(3).permutation(ranks)]
    for order in orders:
        assert reference.wrong(_reduce([inputs[rank] for rank in order], op, dtype)) == 0


@pytest.mark.parametrize("name", DTYPES)
def test_data_is_random_and_never_all_zero(name):
    reference = Reference(name, "sum", 4, 1)
    _dtype(name)
    arrays = [reference.input(rank, COUNT).astype(np.float64) for rank in range(4)]
    for array in arrays:
        assert np.count_nonzero(array) > COUNT // 2
        assert len(np.unique(array)) > (3 if name.startswith("float8") else 16)
    assert not np.array_equal(arrays[0], arrays[1])


@pytest.mark.parametrize("index", [0, 1, COUNT // 2, COUNT - 1])
def test_one_planted_error_is_counted_once(index):
    reference = Reference("float32", "sum", 4, 1)
    result = sum(reference.input(rank, COUNT) for rank in range(4))
    result[index] = np.nextafter(result[index], np.float32(np.inf))
    assert reference.wrong(result) == 1
    result[index] = np.nan
    assert reference.wrong(result) == 1


def test_a_rank_left_out_is_noticed():
    reference = Reference("int8", "sum", 4, 1)
    result = sum((reference.input(rank, COUNT) for rank in range(1, 3)), reference.input(0, COUNT))
    assert reference.wrong(result) > COUNT * 0.9


def test_blocks_continue_each_other():
    reference = Reference("int32", "sum", 2, 1)
    count = BLOCK + 5
    inputs = [reference.input(rank, count) for rank in range(2)]
    result = inputs[0] + inputs[1]
    assert reference.wrong(result) == 0
    result[BLOCK] += 1
    assert reference.wrong(result) == 1
    assert np.array_equal(reference.input(0, BLOCK + 1), inputs[0][:BLOCK + 1])


def test_a_world_too_large_for_an_exact_check_is_refused():
    Reference("bfloat16", "avg", 256, 1)
    with pytest.raises(ValueError, match="wider dtype"):
        Reference("bfloat16", "avg", 257, 1)


def test_names():
    assert dtype_name("bf16") == "bfloat16"
    assert dtype_name("half") == "float16"
    assert [itemsize(dtype_name(name)) for name in ("f8e4m3", "f8e5m2", "bf16", "int8")] == [1, 1, 2, 1]
    with pytest.raises(ValueError, match="float32"):
        dtype_name("float8")
    with pytest.raises(ValueError, match="sum"):
        Reference("float32", "xor", 2, 1)
