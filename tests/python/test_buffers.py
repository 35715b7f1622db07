"""What counts as an array: buffer protocol, DLPack, ml_dtypes, and clear refusals."""

import array
import subprocess
import sys

import numpy
import pytest

import nezha


@pytest.fixture
def comm():
    with nezha.init() as communicator:
        yield communicator


class OnlyDLPack:
    """An array of another library: DLPack and nothing else."""

    def __init__(self, base):
        self.base = base

    def __dlpack__(self, **options):
        return self.base.__dlpack__(**options)

    def __dlpack_device__(self):
        return self.base.__dlpack_device__()


@pytest.mark.parametrize("make", [
    lambda: bytearray(b"\x01\x02"),
    lambda: memoryview(bytearray(b"\x01\x02")),
    lambda: array.array("d", [1.0, 2.0]),
    lambda: array.array("l", [1, 2]),
    lambda: numpy.array([1, 2], numpy.int8),
    lambda: numpy.array(5.0),
    lambda: numpy.ones((2, 3, 4), numpy.float16),
    lambda: numpy.ones((2, 3))[:1],
    lambda: numpy.ones((5, 1))[:, 0],
    lambda: numpy.ones((3, 0, 2)),
    lambda: OnlyDLPack(numpy.ones((2, 3), numpy.float32)),
    lambda: OnlyDLPack(numpy.ones(3, numpy.int32)),
])
def test_accepted(comm, make):
    x = make()
    assert comm.all_reduce(x) is x


def test_unaligned_memory(world):
    def body(comm):
        x = memoryview(bytearray(b"\0" + numpy.full(5, 2.0, "f8").tobytes()))[1:].cast("d")
        return comm.all_reduce(x).tolist()

    assert world(2, body) == [[4.0] * 5] * 2


def test_dlpack_is_changed_in_place(world):
    def body(comm):
        base = numpy.full((2, 2), comm.rank + 1.0)
        comm.all_reduce(OnlyDLPack(base))
        return base.tolist()

    assert world(2, body) == [[[3.0, 3.0], [3.0, 3.0]]] * 2


def test_bfloat16(world):
    bfloat16 = pytest.importorskip("ml_dtypes", reason="needs ml_dtypes").bfloat16

    def body(comm):
        x = numpy.full((2, 2), 1.5, bfloat16)
        assert comm.all_reduce(x) is x
        view = numpy.zeros((4, 4), bfloat16)
        with pytest.raises(ValueError, match="contiguous"):
            comm.all_reduce(view[:, ::2])
        view.flags.writeable = False
        with pytest.raises(ValueError, match="read-only"):
            comm.all_reduce(view)
        return x.astype(float).tolist()

    assert world(2, body) == [[[3.0, 3.0], [3.0, 3.0]]] * 2


@pytest.mark.parametrize("make, words", [
    (lambda: numpy.ones((4, 4))[:, ::2], r"shape \(4, 2\), strides \(32, 16\).*ascontiguous"),
    (lambda: numpy.ones((3, 4)).T, "C-contiguous"),
    (lambda: numpy.ones(8)[::-1], "C-contiguous"),
    (lambda: OnlyDLPack(numpy.ones((4, 4))[:, ::2]), "C-contiguous"),
    (lambda: b"bytes", "read-only"),
    (lambda: numpy.float32(1), "read-only"),
    (lambda: numpy.broadcast_to(numpy.float32(1), (1,)), "read-only"),
    (lambda: [1.0, 2.0], "list"),
    (lambda: None, "NoneType"),
    (lambda: 3.0, "float"),
    (lambda: "text", "str"),
])
def test_refused(comm, make, words):
    with pytest.raises(nezha.InvalidArgument, match=words):
        comm.all_reduce(make())


@pytest.mark.parametrize("dtype", ["longdouble", "clongdouble", ">f4", "U3", "datetime64[s]",
                                   [("a", "f4")]])
def test_unsupported_dtypes(comm, dtype):
    with pytest.raises(nezha.Unsupported, match="dtype.*float32"):
        comm.all_reduce(numpy.zeros(2, dtype))


def test_an_array_cannot_shrink_under_an_operation(world):
    def body(comm):
        x = bytearray(1000)
        if comm.rank == 1:
            comm.barrier()
            return comm.all_reduce(x) == x
        work = comm.all_reduce(x, async_op=True) if comm.rank else None
        work = work or comm.barrier(async_op=True)
        work.wait()
        work = comm.all_reduce(x, async_op=True)
        done = work.test()
        if not done:
            with pytest.raises(BufferError):
                x.clear()
        work.wait()
        x.clear()  # and afterwards it can
        return True

    assert world(2, body) == [True, True]


def test_torch_tensors():
    pytest.importorskip("torch", reason="torch is not installed here")
    code = """
import torch, nezha
with nezha.init() as comm:
    for dtype in (torch.float32, torch.bfloat16, torch.int64, torch.float16):
        x = torch.arange(6).to(dtype)
        assert comm.all_reduce(x, op="avg" if x.is_floating_point() else "sum") is x
        assert x.tolist() == [0, 1, 2, 3, 4, 5]
    try:
        comm.all_reduce(torch.ones(2, requires_grad=True))
    except ValueError as error:
        assert "grad" in str(error)
    else:
        raise SystemExit("a tensor that requires grad was accepted")
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=300)


def test_the_module_needs_no_torch():
    code = "import sys; sys.modules['torch'] = None; import nezha, numpy\n" \
           "with nezha.init() as comm: comm.all_reduce(numpy.ones(2))"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
