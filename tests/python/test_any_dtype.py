"""Elements that are only moved may be of any dtype; what is combined must be numbers."""

import array
import subprocess
import sys

import numpy
import pytest

import nezha

RANKS = 3
DTYPES = ["bool", "int16", "uint16", "uint32", "uint64", "complex64", "complex128", ">f4", "longdouble",
          "U3", "S5", "datetime64[s]", "V3", [("a", "f4"), ("O", "i2")]]
ids = pytest.mark.parametrize("dtype", DTYPES, ids=str)


def values(dtype, rank, count=6):
    """Any bytes but those of rank 0 and those of rank 1 differ."""
    x = numpy.zeros(count, dtype)
    x.view("u1")[:] = 0
    x.view("u1")[::numpy.dtype(dtype).itemsize] = (rank + numpy.arange(count)) % 2
    return x


def same(a, b):
    # numpy.concatenate gives the byte order of this machine.
    return a.tobytes() == b.astype(a.dtype).tobytes()


@ids
def test_broadcast_and_gathers(world, dtype):
    def body(comm):
        x = values(dtype, comm.rank)
        all_of_them = numpy.concatenate([values(dtype, rank) for rank in range(RANKS)])
        sent = comm.broadcast(x.copy(), 1)
        every, mine = comm.all_gather(x), comm.gather(x, root=2)
        assert same(sent, values(dtype, 1)) and same(every.ravel(), all_of_them)
        assert every.shape == (RANKS, 6)
        assert (mine is None) == (comm.rank != 2)
        assert mine is None or same(mine.ravel(), all_of_them)
        return True

    assert world(RANKS, body) == [True] * RANKS


@ids
def test_counts_are_of_elements(world, dtype):
    def body(comm):
        counts = [1, 0, 4]
        x = values(dtype, comm.rank, counts[comm.rank])
        out = numpy.empty(5, dtype)
        comm.all_gather_v(x, counts=counts, out=out)
        blocks = [values(dtype, rank, counts[rank]) for rank in range(RANKS)]
        assert same(out, numpy.concatenate(blocks))
        x = numpy.concatenate([values(dtype, comm.rank, n) for n in range(RANKS)]).astype(dtype)
        out = numpy.empty(comm.rank * RANKS, dtype)
        comm.all_to_all_v(x, send_counts=range(RANKS), receive_counts=[comm.rank] * RANKS, out=out)
        blocks = [values(dtype, rank, comm.rank) for rank in range(RANKS)]
        assert same(out, numpy.concatenate(blocks))
        return True

    assert world(RANKS, body) == [True] * RANKS


@ids
def test_scatter_all_to_all_and_messages(world, dtype):
    def body(comm):
        x = values(dtype, comm.rank)
        block = comm.scatter(x, root=0, out=numpy.empty(2, dtype))
        assert same(block, values(dtype, 0)[2 * comm.rank:2 * comm.rank + 2])
        swapped = comm.all_to_all(x)
        at = slice(2 * comm.rank, 2 * comm.rank + 2)
        assert same(swapped, numpy.concatenate([values(dtype, rank)[at] for rank in range(RANKS)]))
        if comm.rank == 0:
            comm.send(x, 1, tag=7)
        elif comm.rank == 1:
            assert same(comm.recv(numpy.empty(6, dtype), 0, tag=7), values(dtype, 0))
        return True

    assert world(RANKS, body) == [True] * RANKS


@pytest.mark.parametrize("call", [
    lambda comm, x: comm.all_reduce(x), lambda comm, x: comm.reduce(x),
    lambda comm, x: comm.reduce_scatter(x),
    lambda comm, x: comm.reduce_scatter_v(x, counts=[2], out=x.copy()),
    lambda comm, x: comm.all_reduce(numpy.zeros(2), out=x),
])
@pytest.mark.parametrize("dtype", [">f4", "S3", "clongdouble", "datetime64[s]"])
def test_what_is_combined_must_be_numbers(call, dtype):
    with nezha.init() as comm, pytest.raises(nezha.Unsupported, match="dtype.*float32"):
        call(comm, numpy.zeros(2, dtype))


@pytest.mark.parametrize("x", [
    numpy.array([1, "a"], object), numpy.zeros(2, [("a", "O")]),
    memoryview(numpy.array([1, "a"], object)),
])
def test_references_to_objects_stay_here(x):
    with nezha.init() as comm, pytest.raises(nezha.Unsupported, match="Python objects"):
        comm.broadcast(x)


@pytest.mark.parametrize("x, out", [
    (numpy.zeros(2, "u4"), numpy.zeros(2, "c8")), (numpy.zeros(2, "u4"), numpy.zeros(2, "i4")),
    (numpy.zeros(2, "?"), numpy.zeros(2, "u1")), (numpy.zeros(2, "S3"), numpy.zeros(2, "S4")),
])
def test_x_and_out_are_of_one_dtype(x, out):
    with nezha.init() as comm:
        with pytest.raises(nezha.InvalidArgument, match="dtype"):
            comm.all_gather(x, out=out)
        gathered = comm.all_gather(x, out=numpy.zeros_like(x))
        assert gathered.dtype == x.dtype and (gathered == x).all()


class OnlyDLPack:
    def __init__(self, base):
        self.base = base

    def __dlpack__(self, **options):
        return self.base.__dlpack__(**options)

    def __dlpack_device__(self):
        return self.base.__dlpack_device__()


def test_an_element_has_one_name_whoever_holds_it():
    held = {"uint32": array.array("I", [1, 2]), "int16": array.array("h", [1, 2]),
            "bool": memoryview(bytearray(2)).cast("?"), "complex64": None}
    with nezha.init() as comm:
        for name, x in held.items():
            base = numpy.array([1, 0]).astype(name)
            seen = numpy.ones_like(base)
            comm.all_gather(base, out=OnlyDLPack(seen))
            assert (seen == base).all()
            if x is not None:
                comm.all_gather(base, out=x)
                assert list(x) == [1, 0]


def test_a_disagreement_about_size_is_noticed(world):
    def body(comm):
        x = numpy.zeros(4, "u2" if comm.rank else "u4")
        with pytest.raises(nezha.Mismatch):
            comm.broadcast(x)
        return True

    assert world(2, body) == [True, True]


def test_torch_tensors():
    pytest.importorskip("torch", reason="torch is not installed here")
    code = """
import numpy, torch, nezha
with nezha.init() as comm:
    for dtype in (torch.bool, torch.uint16, torch.uint32, torch.int16, torch.complex64,
                  torch.float8_e4m3fn, torch.float8_e5m2, torch.float8_e4m3fnuz):
        x = torch.tensor([1, 0, 1]).to(dtype)
        every = comm.all_gather(x)
        assert every.dtype == dtype and every.shape == (1, 3) and every.dtype == x.dtype
        assert comm.broadcast(x) is x
        try:
            comm.all_reduce(x)
        except nezha.Unsupported:
            combined = False
        else:
            combined = True
        if combined == (dtype is torch.float8_e4m3fnuz):
            raise SystemExit(f"{dtype} was {'' if combined else 'not '}combined")
    comm.all_gather(torch.tensor([True]), out=numpy.zeros(1, bool))
    for refused in (torch.ones(2, dtype=torch.complex64).conj(),
                    torch.quantize_per_tensor(torch.ones(2), 0.1, 0, torch.quint8)):
        for call in (comm.broadcast, comm.all_reduce):
            try:
                call(refused)
            except nezha.Error:
                pass
            else:
                raise SystemExit("what its memory holds is not what it means")
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=300)
