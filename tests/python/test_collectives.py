"""Collectives from Python, with threads as ranks: every dtype, every operator, every way."""

import numpy
import pytest

import nezha

ml_dtypes = pytest.importorskip("ml_dtypes", reason="short floats for NumPy come from ml_dtypes")

RANKS = 3
DTYPES = {name: numpy.dtype(name) for name in ("float64", "float32", "float16", "int8", "int16",
                                               "int32", "int64", "uint8", "uint16", "uint32",
                                               "uint64")}
DTYPES.update((name, numpy.dtype(getattr(ml_dtypes, name)))
              for name in ("bfloat16", "float8_e4m3fn", "float8_e5m2"))
BIT_OPS = {"band": numpy.bitwise_and, "bor": numpy.bitwise_or, "bxor": numpy.bitwise_xor}
OPS = {"sum": numpy.add, "prod": numpy.multiply, "min": numpy.minimum, "max": numpy.maximum,
       **BIT_OPS}


def values(dtype, rank, count=1000):
    """Small integers: every sum and product of three is exact in every dtype."""
    beyond = 3 if "float8" in numpy.dtype(dtype).name else 5
    return numpy.random.default_rng(rank).integers(1, beyond, count).astype(dtype)


def expected(dtype, op, count=1000):
    total = values(dtype, 0, count).astype(numpy.int64)
    for rank in range(1, RANKS):
        total = OPS[op](total, values(dtype, rank, count).astype(numpy.int64))
    return total.astype(dtype)


@pytest.mark.parametrize("op", OPS)
@pytest.mark.parametrize("dtype", DTYPES.values(), ids=DTYPES)
def test_all_reduce(world, dtype, op):
    floating = "float" in dtype.name

    def body(comm):
        x = values(dtype, comm.rank)
        if floating and op in BIT_OPS:
            with pytest.raises(nezha.Unsupported):
                comm.all_reduce(x, op)
            return None
        assert comm.all_reduce(x, op) is x
        return x

    for result in world(RANKS, body):
        if result is not None:
            assert result.tobytes() == expected(dtype, op).tobytes()


@pytest.mark.parametrize("op, word", [
    ("sum", any), ("max", any), ("bor", any), ("prod", all), ("min", all), ("band", all),
    ("bxor", lambda column: sum(column) % 2 == 1),
])
def test_bools_stay_bools(world, op, word):
    rows = [[True, False, True, False], [True, False, False, True], [True, False, True, True]]

    def body(comm):
        blocks = numpy.array(rows[comm.rank] * RANKS)
        return (comm.all_reduce(numpy.array(rows[comm.rank]), op),
                comm.reduce_scatter(blocks, op=op, out=numpy.empty(4, bool)))

    for results in world(RANKS, body):
        for result in results:
            assert result.dtype == bool and result.view("u1").max() <= 1
            assert result.tolist() == [word(column) for column in zip(*rows)]


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
def test_complex_numbers_have_what_is_linear(world, dtype):
    def body(comm):
        x = numpy.full(6, comm.rank + 1 - 2j * comm.rank, dtype)
        block = comm.reduce_scatter_v(x, counts=[1, 2, 3], out=numpy.zeros(comm.rank + 1, dtype))
        halves = comm.all_reduce(x, "premul_sum", factor=0.5, out=numpy.zeros_like(x))
        rooted = comm.reduce(x.copy(), 1, "avg")
        return block, halves, rooted, comm.all_reduce(x)

    for rank, (block, halves, rooted, total) in enumerate(world(RANKS, body)):
        assert total.dtype == dtype and (total == 6 - 6j).all()
        assert block.tolist() == [6 - 6j] * (rank + 1) and (halves == 3 - 3j).all()
        assert rooted is None or rooted.tolist() == [2 - 2j] * 6
        assert (rooted is None) == (rank != 1)


@pytest.mark.parametrize("dtype, op, words", [
    ("bool", "avg", "avg.*bool.*number type"), ("bool", "premul_sum", "premul_sum.*bool"),
    ("complex64", "max", "max.*complex64.*sum, avg"), ("complex128", "prod", "prod.*complex128"),
])
def test_operators_that_an_element_does_not_have(dtype, op, words):
    with nezha.init() as comm:
        with pytest.raises(nezha.Unsupported, match=words):
            comm.all_reduce(numpy.zeros(2, dtype), op, factor=2.0 if op == "premul_sum" else None)
        assert comm.all_reduce(numpy.ones(2, dtype)).all()


@pytest.mark.parametrize("dtype", DTYPES.values(), ids=DTYPES)
def test_average(world, dtype):
    def body(comm):
        x = numpy.full(5, 2 * comm.rank + 1).astype(dtype)
        if numpy.issubdtype(dtype, numpy.integer):
            wrong = f"avg is not defined for {x.dtype}; its sums can wrap; use sum"
            with pytest.raises(nezha.Unsupported, match=wrong):
                comm.all_reduce(x, "avg")
            return None
        return comm.all_reduce(x, "avg")

    for result in world(RANKS, body):
        assert result is None or result.astype(float).tolist() == [3.0] * 5


@pytest.mark.parametrize("algorithm", [None, "ring", "recursive_doubling"])
def test_an_average_of_what_float16_holds_is_no_more(world, algorithm):
    """Sums of these exceed float16, on the way or at the end."""
    def body(comm):
        alike = comm.all_reduce(numpy.full(9, 60000, numpy.float16), "avg", algorithm=algorithm)
        signs = numpy.full(9, [60000, 60000, -60000, -60000][comm.rank], numpy.float16)
        return [*alike.tolist(), *comm.all_reduce(signs, "avg", algorithm=algorithm).tolist()]

    for result in world(4, body):
        assert result == [60000.0] * 9 + [0.0] * 9


def test_premul_sum(world):
    def body(comm):
        x = numpy.ones(4, numpy.float32)
        return comm.all_reduce(x, "premul_sum", factor=comm.rank + 0.5)

    for result in world(RANKS, body):
        assert result.tolist() == [4.5] * 4


@pytest.mark.parametrize("count", [0, 1, 2, 1023, 1 << 20])
def test_sizes(world, count):
    def body(comm):
        return comm.all_reduce(values("int32", comm.rank, count))

    for result in world(RANKS, body):
        assert (result == expected("int32", "sum", count)).all()


def test_out_of_place(world):
    def body(comm):
        x = values("float32", comm.rank)
        x.flags.writeable = False
        out = numpy.empty(1000, numpy.float32)
        assert comm.all_reduce(x, out=out) is out
        assert (x == values("float32", comm.rank)).all()
        return out

    for result in world(RANKS, body):
        assert (result == expected("float32", "sum")).all()


@pytest.mark.parametrize("root", range(RANKS))
def test_broadcast(world, root):
    def body(comm):
        x = values("int64", comm.rank)
        if comm.rank == root:
            x.flags.writeable = False  # the root's memory is only read
        assert comm.broadcast(x, root) is x
        return x

    for result in world(RANKS, body):
        assert (result == values("int64", root)).all()


def test_barrier(world):
    entered = []

    def body(comm):
        entered.append(comm.rank)
        assert comm.barrier() is None
        return len(entered)

    assert world(RANKS, body) == [RANKS] * RANKS


@pytest.mark.parametrize("algorithm", ["ring", "halving_doubling", "recursive_doubling", "bcube"])
def test_algorithms(world, algorithm):
    def body(comm):
        return comm.all_reduce(values("float32", comm.rank), algorithm=algorithm)

    for result in world(RANKS, body):
        assert (result == expected("float32", "sum")).all()


def test_a_world_of_one():
    with nezha.init() as comm:
        assert (comm.rank, comm.world_size) == (0, 1)
        assert comm.all_reduce(numpy.arange(3)).tolist() == [0, 1, 2]
        assert comm.broadcast(bytearray(b"abc")) == b"abc"


@pytest.mark.parametrize("call, kind, words", [
    (lambda comm, x: comm.all_reduce(x, "plus"), nezha.InvalidArgument, "plus"),
    (lambda comm, x: comm.all_reduce(x, "premul_sum"), nezha.InvalidArgument, "factor"),
    (lambda comm, x: comm.all_reduce(x, factor=2.0), nezha.InvalidArgument, "factor"),
    (lambda comm, x: comm.all_reduce(x, timeout=0), nezha.InvalidArgument, "timeout"),
    (lambda comm, x: comm.all_reduce(x, algorithm="nonsense"), nezha.Error, "nonsense.*bcube"),
    (lambda comm, x: comm.all_reduce(x, algorithm="aggregation"), nezha.InvalidArgument, "aggregator="),
    (lambda comm, x: comm.broadcast(x, algorithm="ring"), nezha.Unsupported, "tree, chain"),
    (lambda comm, x: comm.all_reduce(x, out=numpy.empty(3, x.dtype)), nezha.InvalidArgument, "3"),
    (lambda comm, x: comm.all_reduce(x, out=numpy.empty(8, "int8")), nezha.InvalidArgument,
     "dtype"),
    (lambda comm, x: comm.broadcast(x, root=7), nezha.InvalidArgument, "root"),
])
def test_bad_calls_are_refused_and_harmless(call, kind, words):
    with nezha.init() as comm:
        x = numpy.ones(8, numpy.float32)
        with pytest.raises(kind, match=words):
            call(comm, x)
        assert comm.all_reduce(x).tolist() == [1.0] * 8
