"""Collectives of blocks, messages, groups and communicators made without a message, from Python."""

import numpy
import pytest

import nezha

RANKS = 3


def test_all_gather(world):
    def body(comm):
        x = numpy.arange(6, dtype="f4").reshape(2, 3) + 10 * comm.rank
        new = comm.all_gather(x)
        out = numpy.empty(6 * RANKS, "f4")
        assert comm.all_gather(x, out=out) is out
        out[:] = 0
        place = out[6 * comm.rank:6 * (comm.rank + 1)]
        place[:] = x.ravel()
        comm.all_gather(place, out=out)  # in place
        assert (out == new.ravel()).all()
        return new

    for new in world(RANKS, body):
        assert new.shape == (RANKS, 2, 3) and new.dtype == numpy.float32
        assert (new[:, 0, 0] == [0, 10, 20]).all()


def test_all_gather_of_blocks_that_differ(world):
    def body(comm):
        out = numpy.empty(6, "i8")
        return comm.all_gather_v(numpy.full(comm.rank + 1, comm.rank), [1, 2, 3], out=out).tolist()

    assert world(RANKS, body) == [[0, 1, 1, 2, 2, 2]] * RANKS


@pytest.mark.parametrize("op, factor, times", [("sum", None, 3), ("avg", None, 1), ("max", None, 1),
                                               ("premul_sum", 2.0, 6)])
def test_reduce_scatter(world, op, factor, times):
    def body(comm):
        x = numpy.arange(2.0 * RANKS).reshape(RANKS * 2, 1)
        block = comm.reduce_scatter(x, op=op, factor=factor)
        assert block.shape == (2, 1) and (x.ravel() == numpy.arange(6.0)).all()
        return block.ravel().tolist()

    for rank, block in enumerate(world(RANKS, body)):
        assert block == [times * 2.0 * rank, times * (2.0 * rank + 1)]


def test_reduce_scatter_of_blocks_that_differ(world):
    def body(comm):
        out = numpy.empty(comm.rank, "i4")
        return comm.reduce_scatter_v(numpy.arange(3, dtype="i4"), [0, 1, 2], out=out).tolist()

    assert world(RANKS, body) == [[], [0], [3, 6]]


@pytest.mark.parametrize("root", range(RANKS))
def test_to_and_from_one_rank(world, root):
    def body(comm):
        is_root = comm.rank == root
        total = comm.reduce(numpy.full(2, comm.rank + 1.0), root)
        gathered = comm.gather(numpy.full(2, comm.rank), root=root)
        x = numpy.arange(6) if is_root else None
        block = comm.scatter(x, root, out=numpy.empty(2, "i8"))
        assert block.tolist() == [2 * comm.rank, 2 * comm.rank + 1]
        return (total is None, gathered is None) if not is_root else (total.tolist(),
                                                                      gathered.tolist())

    for rank, result in enumerate(world(RANKS, body)):
        wanted = ([6.0, 6.0], [[0, 0], [1, 1], [2, 2]]) if rank == root else (True, True)
        assert result == wanted


def test_all_to_all(world):
    def body(comm):
        even = comm.all_to_all(numpy.arange(RANKS) + 10 * comm.rank).tolist()
        out = numpy.empty(RANKS * comm.rank, "i8")
        x = numpy.repeat(comm.rank, sum(range(RANKS)))
        comm.all_to_all_v(x, range(RANKS), [comm.rank] * RANKS, out=out)
        return even, out.tolist()

    for rank, (even, uneven) in enumerate(world(RANKS, body)):
        assert even == [10 * other + rank for other in range(RANKS)]
        assert uneven == [other for other in range(RANKS) for _ in range(rank)]


def test_messages(world):
    def body(comm):
        work = comm.recv(numpy.empty(3), tag=5, async_op=True)
        comm.send(numpy.full(3, float(comm.rank)), (comm.rank + 1) % RANKS, tag=5)
        return work.wait().tolist(), work.source

    before = [RANKS - 1, *range(RANKS - 1)]
    assert world(RANKS, body) == [([float(source)] * 3, source) for source in before]


def test_messages_of_any_tag(world):
    last = 2**32 - 2

    def body(comm):
        if comm.rank == 2:
            work = comm.recv(numpy.empty(2), tag=None, async_op=True)
            comm.barrier()
            return work.wait().tolist(), work.source, work.tag
        comm.barrier()
        if comm.rank == 0:
            comm.send(numpy.arange(6.0), 1, tag=9)
            comm.send(numpy.arange(4, dtype="i4"), 1, tag=last)
            comm.send(numpy.ones(2), 2, tag=7)
            return None
        while comm.probe(0, last) is None:
            pass
        waiting = comm.probe()
        assert waiting == comm.probe(0, 9) == (0, 9, 6, 48) and waiting.nbytes == 48
        assert comm.probe(tag=3) is None and comm.probe(source=2) is None
        work = comm.recv(numpy.empty(waiting.elements), tag=None, async_op=True)
        later = numpy.empty(comm.probe(tag=last).nbytes // 4, "i4")
        assert work.wait()[5] == 5 and (work.source, work.tag) == (0, 9)
        return comm.recv(later, 0, None).tolist(), comm.probe()

    assert world(RANKS, body) == [None, ([0, 1, 2, 3], None), ([1, 1], 0, 7)]


@pytest.mark.parametrize("async_op", [False, True])
def test_groups(world, async_op):
    def body(comm):
        arrays = [numpy.full(100, float(i)) for i in range(12)]
        with comm.batch(async_op=async_op) as batch:
            for x in arrays:
                assert comm.all_reduce(x) is x
            gathered = comm.all_gather(numpy.array([comm.rank]))
        results = batch.work.wait()
        assert results[0] is arrays[0] and results[-1] is gathered
        assert [x[0] for x in arrays] == [RANKS * i for i in range(12)]
        return gathered.ravel().tolist()

    assert world(RANKS, body) == [[0, 1, 2]] * RANKS


def test_an_exception_forgets_the_group(world):
    def body(comm):
        with pytest.raises(KeyError):
            with comm.batch():
                if comm.rank == 0:
                    comm.barrier()
                raise KeyError
        with pytest.raises(nezha.InvalidArgument, match="async_op"):
            with comm.batch():
                comm.barrier(async_op=True)
        return comm.all_reduce(numpy.ones(1))[0]

    assert world(2, body) == [2.0, 2.0]


def test_create_needs_its_members_only(world):
    def body(comm):
        if comm.rank == 1:
            return None
        with comm.create_group([2, 0], "pair") as pair:
            return pair.rank, pair.all_gather(numpy.array([comm.rank])).ravel().tolist()

    assert world(RANKS, body) == [(1, [2, 0]), None, (0, [2, 0])]


def test_bfloat16(world):
    bfloat16 = pytest.importorskip("ml_dtypes", reason="needs ml_dtypes").bfloat16

    def body(comm):
        x = numpy.full(RANKS, comm.rank + 0.5, bfloat16)
        return comm.all_gather(x).astype(float)[:, 0].tolist(), float(comm.reduce_scatter(x)[0])

    assert world(RANKS, body) == [([0.5, 1.5, 2.5], 4.5)] * RANKS


def test_torch_tensors(world):
    torch = pytest.importorskip("torch", reason="torch is not installed here")

    def body(comm):
        x = torch.full((RANKS, 2), comm.rank + 1.0, dtype=torch.bfloat16)
        gathered, block = comm.all_gather(x), comm.reduce_scatter(x)
        assert isinstance(gathered, torch.Tensor) and gathered.shape == (RANKS, RANKS, 2)
        assert block.dtype == torch.bfloat16
        with pytest.raises(nezha.InvalidArgument, match="detach"):
            comm.all_gather(torch.ones(2, requires_grad=True))
        with pytest.raises(nezha.InvalidArgument, match="contiguous"):
            comm.all_reduce(torch.ones(3, 2).t())
        return block.tolist()

    assert world(RANKS, body) == [[[6.0, 6.0]]] * RANKS


@pytest.mark.parametrize("call, words", [
    (lambda comm, x: comm.all_gather(x, out=numpy.empty(9, "f4")), "out has 9 elements instead of 8"),
    (lambda comm, x: comm.all_gather(x, out=numpy.empty(8, "f8")), "dtype"),
    (lambda comm, x: comm.all_gather([1.0]), "list"),
    (lambda comm, x: comm.all_gather_v(x, [8, 8], out=x), "counts has 2 entries"),
    (lambda comm, x: comm.all_gather_v(x, [-8]), r"counts\[0\] is -8: it must be 0 or more"),
    (lambda comm, x: comm.reduce_scatter_v(x, [-8]), r"counts\[0\] is -8: it must be 0 or more"),
    (lambda comm, x: comm.all_to_all_v(x, [8], [-8]), r"receive_counts\[0\] is -8: it must be 0 or more"),
    (lambda comm, x: comm.send(x, 0, tag=-1), "tag -1: it must be 0 to 4294967294"),
    (lambda comm, x: comm.recv(x, 0, tag=1 << 32), "tag 4294967296: it must be 0 to"),
    (lambda comm, x: comm.all_gather_v(x, [7], out=x.copy()), "x has 8 elements"),
    (lambda comm, x: comm.reduce_scatter(x, out=numpy.empty(3, "f4")), "x has 8 elements"),
    (lambda comm, x: comm.reduce_scatter(numpy.float32(1)), "first extent"),
    (lambda comm, x: comm.reduce_scatter(x, op="nonsense"), "nonsense"),
    (lambda comm, x: comm.reduce(x, root=4), "root"),
    (lambda comm, x: comm.scatter(x, out=None), "out is None"),
    (lambda comm, x: comm.all_to_all(x, out=x), "overlap"),
    (lambda comm, x: comm.all_to_all_v(x, [8], [9], out=x.copy()), "out has 8 elements"),
    (lambda comm, x: comm.send(x, 1), "destination"),
    (lambda comm, x: comm.recv(x, -3), "source"),
    (lambda comm, x: comm.create_group([1]), "rank 1"),
])
def test_bad_calls_are_refused_and_harmless(call, words):
    with nezha.init() as comm:
        x = numpy.ones(8, numpy.float32)
        with pytest.raises(nezha.InvalidArgument, match=words):
            call(comm, x)
        assert comm.all_reduce(x).tolist() == [1.0] * 8
