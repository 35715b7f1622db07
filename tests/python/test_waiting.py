"""wait_all, wait_any, await, and what a Work says of itself."""

import asyncio
import threading

import numpy
import pytest

import nezha


def arrays(comm, count):
    return [numpy.full(1000, float(number + comm.rank)) for number in range(count)]


def test_all_results_in_the_order_of_the_works(world):
    def body(comm):
        mine = arrays(comm, 5)
        works = [comm.all_reduce(x, async_op=True) for x in mine]
        results = nezha.wait_all(works, timeout=60)
        assert all(result is x for result, x in zip(results, mine))
        assert nezha.wait_all([]) == []
        return [x[0] for x in mine]

    assert world(2, body) == [[2.0 * number + 1 for number in range(5)]] * 2


def test_any_is_the_one_that_is_over(world):
    """Rank 0's second receive is the only one that can end: the first comes when the second has come."""
    def body(comm):
        x = numpy.zeros(4)
        if comm.rank == 1:
            comm.send(numpy.full(4, 2.0), 0, tag=2)
            comm.recv(x, 0, tag=3)
            comm.send(numpy.full(4, 1.0), 0, tag=1)
            return None
        works = [comm.recv(numpy.zeros(4), 1, tag=tag, async_op=True) for tag in (1, 2)]
        first = nezha.wait_any(works, timeout=60)
        comm.send(x, 1, tag=3)
        rest = nezha.wait_any([works[1 - first]], timeout=60)
        return first, rest, [work.wait()[0] for work in works]

    assert world(2, body)[0] == (1, 0, [1.0, 2.0])


def test_a_deadline_ends_the_wait_and_not_the_operations(world):
    begin = threading.Event()

    def body(comm):
        if comm.rank == 1:
            begin.wait(60)
            return comm.all_reduce(numpy.ones(4))[0]
        works = [comm.all_reduce(numpy.ones(4), async_op=True)]
        with pytest.raises(nezha.WaitTimedOut, match="none of 1 operations"):
            nezha.wait_any(works, timeout=0.01)
        with pytest.raises(nezha.WaitTimedOut, match="all_reduce"):
            nezha.wait_all(works, timeout=0.01)
        begin.set()
        return nezha.wait_all(works, timeout=60)[0][0]

    assert world(2, body) == [2.0, 2.0]


def test_any_of_none_is_an_error():
    with pytest.raises(nezha.InvalidArgument, match="at least one"):
        nezha.wait_any([])


def test_one_that_failed_is_over_and_raises_when_it_is_asked(world):
    both_have_called = threading.Barrier(2, timeout=60)  # a call after the other's abort raises at once

    def body(comm):
        works = [comm.recv(numpy.zeros(1), 1 - comm.rank, tag=tag, async_op=True) for tag in (1, 2)]
        both_have_called.wait()
        works[1].abort()
        assert nezha.wait_any([works[1]], timeout=60) == 0
        assert "failed" in repr(works[1])
        with pytest.raises(nezha.Aborted):
            nezha.wait_all(works, timeout=60)
        return True

    assert world(2, body) == [True] * 2


def test_coroutines_wait_beside_each_other(world):
    """The receive that is awaited first needs a message that another coroutine of this rank causes."""
    def body(comm):
        other = 1 - comm.rank

        async def receive():
            return await comm.recv(numpy.zeros(1), other, tag=7, async_op=True)

        async def send():
            await asyncio.sleep(0.01)
            await comm.send(numpy.full(1, comm.rank + 5.0), other, tag=7, async_op=True)

        async def both():
            return (await asyncio.gather(receive(), send()))[0]

        return asyncio.run(both())[0]

    assert world(2, body) == [6.0, 5.0]


def test_an_awaited_error_is_raised(world):
    def body(comm):
        work = comm.recv(numpy.zeros(1), 1 - comm.rank, async_op=True)
        work.abort()

        async def wait():
            await work

        with pytest.raises(nezha.Aborted):
            asyncio.run(wait())
        return True

    assert world(2, body) == [True] * 2


def test_what_a_work_says(world):
    begin = threading.Event()

    def body(comm):
        if comm.rank == 1:
            begin.wait(60)
        work = comm.all_reduce(numpy.ones(1), async_op=True)
        if comm.rank == 0:
            assert repr(work) == "<nezha.Work all_reduce, running>"
        begin.set()
        work.wait()
        assert repr(work) == "<nezha.Work all_reduce, completed>"
        return True

    assert world(2, body) == [True] * 2


def test_the_old_names_work_and_warn(world):
    def body(comm):
        x = numpy.ones(1)
        with pytest.warns(DeprecationWarning, match=r"group\(\) is now batch\(\)"):
            block = comm.group()
        with block:
            comm.all_reduce(x)
        with pytest.warns(DeprecationWarning, match=r"create\(\) is now create_group\(\)"):
            part = comm.create([0], "one")
        part.close()
        return x[0]

    assert world(1, body) == [1.0]
