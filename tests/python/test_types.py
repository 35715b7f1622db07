"""What type checkers see of the Python interface, and that it is what the library has."""

import inspect
import re
import subprocess
import sys
import typing

import numpy
import pytest

import nezha
from nezha import _literals

ALGORITHMS = {
    "all_reduce": _literals.AllReduceAlgorithm, "broadcast": _literals.BroadcastAlgorithm,
    "all_gather": _literals.AllGatherAlgorithm, "reduce_scatter": _literals.ReduceScatterAlgorithm,
    "reduce": _literals.ReduceAlgorithm, "gather": _literals.GatherAlgorithm,
    "scatter": _literals.ScatterAlgorithm, "all_to_all": _literals.AllToAllAlgorithm,
}
COLLECTIVES = [*ALGORITHMS, "all_gather_v", "reduce_scatter_v", "all_to_all_v"]

GOOD = """
from typing import Any, List, Optional
from typing_extensions import assert_type
import numpy
from numpy.typing import NDArray
import nezha

class Tensor:  # torch.Tensor, which takes mypy half a minute: no class of arrays is special
    pass

def calls(comm: nezha.Communicator, x: NDArray[numpy.float32], wide: NDArray[numpy.float64],
          later: bool, tensor: Tensor) -> None:
    assert_type(comm.all_reduce(x), NDArray[numpy.float32])
    assert_type(comm.all_reduce(x, "max", async_op=True), nezha.Work[NDArray[numpy.float32]])
    assert_type(comm.all_reduce(x, out=wide), NDArray[numpy.float64])
    assert_type(comm.all_reduce(x, async_op=True).wait(), NDArray[numpy.float32])
    assert_type(comm.all_reduce(x, out=wide, async_op=True), nezha.Work[NDArray[numpy.float64]])
    assert_type(comm.all_reduce(x, async_op=later), Any)
    assert_type(comm.all_reduce(tensor, "premul_sum", factor=0.5, timeout=1), Tensor)
    assert_type(comm.all_reduce(tensor, out=None, async_op=True), nezha.Work[Tensor])
    assert_type(comm.broadcast(x, 1, algorithm="tree"), NDArray[numpy.float32])
    assert_type(comm.all_gather(x, out=wide, algorithm="bruck"), NDArray[numpy.float64])
    assert_type(comm.all_gather(x, out=wide, async_op=True), nezha.Work[NDArray[numpy.float64]])
    assert_type(comm.all_gather(x), Any)
    assert_type(comm.all_gather(x, async_op=True), nezha.Work[Any])
    assert_type(comm.reduce(x, 0, "sum"), Optional[NDArray[numpy.float32]])
    assert_type(comm.reduce(x, async_op=True), nezha.Work[Optional[NDArray[numpy.float32]]])
    assert_type(comm.gather(x, root=1, out=tensor), Optional[Tensor])
    assert_type(comm.all_to_all(x), NDArray[numpy.float32])
    assert_type(comm.all_to_all_v(x, [1], [1], out=tensor, async_op=True), nezha.Work[Tensor])
    assert_type(comm.reduce_scatter_v(x, [1], async_op=later), Any)
    assert_type(comm.scatter(None, 0, out=x), NDArray[numpy.float32])
    assert_type(comm.recv(x, 1), NDArray[numpy.float32])
    assert_type(comm.barrier(async_op=True), nezha.Work[None])
    comm.send(x, 1)
    comm.barrier()
    assert_type(comm.sendrecv(x, 1, wide, 0), NDArray[numpy.float64])
    assert_type(comm.rails()[0]["peers"][0]["up"], bool)
    assert_type(comm.stats()["retransmitted"], int)
    assert_type(nezha.wait_all([comm.all_reduce(x, async_op=True)]), List[NDArray[numpy.float32]])

async def coroutine(comm: nezha.Communicator, x: NDArray[numpy.float32]) -> None:
    assert_type(await comm.all_reduce(x, async_op=True), NDArray[numpy.float32])

def blocks(comm: nezha.Communicator, x: NDArray[numpy.float32]) -> None:
    with comm.batch() as batch:
        comm.all_reduce(x)
    assert_type(batch.work, Optional[nezha.Work[List[Any]]])
"""

BAD = """
import numpy
import nezha

def calls(comm: nezha.Communicator, x: numpy.ndarray) -> None:
    comm.all_reduce(x, "plus")
    comm.all_reduce(x, algorithm="tree")
    comm.all_gather(x, x)
    comm.scatter(x, 0)
    comm.barrier().wait()
    comm.describe("nothing")
    comm.broadcast(x, out=x)
    comm.all_gather(x, factor=2.0)
    number: int = comm.all_reduce(x)
"""


def checked(tmp_path, text):
    """The lines of `text` in which mypy finds an error."""
    pytest.importorskip("mypy")
    path = tmp_path / "program.py"
    path.write_text(text)
    found = subprocess.run([sys.executable, "-m", "mypy", "--no-incremental", "--python-executable",
                            sys.executable, str(path)], capture_output=True, text=True, cwd=tmp_path)
    errors = re.findall(r"^program\.py:(\d+): error: (.*)$", found.stdout, re.MULTILINE)
    assert errors or found.returncode == 0, found.stdout + found.stderr
    return {int(line): words for line, words in errors}


def test_calls_have_the_types_that_they_return(tmp_path):
    assert checked(tmp_path, GOOD) == {}


def test_wrong_names_and_places_are_found(tmp_path):
    first = BAD.split("\n").index('    comm.all_reduce(x, "plus")') + 1
    assert sorted(checked(tmp_path, BAD)) == list(range(first, first + 9))


@pytest.mark.parametrize("collective", ALGORITHMS)
def test_the_algorithms_are_those_of_the_library(collective):
    wrong = "bcube" if collective != "all_reduce" else "pairwise"
    with nezha.init() as comm:
        more = {"out": numpy.ones(2)} if collective == "scatter" else {}
        with pytest.raises(nezha.Unsupported, match="choose one of") as caught:
            getattr(comm, collective)(numpy.ones(2), algorithm=wrong, **more)
    known = str(caught.value).partition("choose one of ")[2].split(", ")
    assert set(known) == set(typing.get_args(ALGORITHMS[collective]))


def test_the_operators_are_those_of_the_library():
    with nezha.init() as comm, pytest.raises(nezha.InvalidArgument) as caught:
        comm.all_reduce(numpy.ones(2), "plus")
    named = str(caught.value).partition("use one of ")[2].split(", ")
    assert named == list(typing.get_args(_literals.Op))


def test_the_topics_are_those_of_the_library():
    topics = typing.get_args(_literals.Topic)
    with nezha.init() as comm:
        with pytest.raises(nezha.InvalidArgument) as caught:
            comm.describe("weather")
        named = str(caught.value).partition("cannot describe 'weather': ")[2].replace(" or ", ", ")
        assert sorted(named.split(", ")) == sorted(topics)
        described = [comm.describe(topic) for topic in topics]
    # Each is another one: no two topics have the same fields.
    assert len({tuple(each) for each in described}) == len(topics), described


@pytest.mark.parametrize("collective", COLLECTIVES)
def test_out_is_a_keyword_in_every_call(collective):
    parameters = inspect.signature(getattr(nezha.Communicator, collective)).parameters
    if collective != "broadcast":
        assert parameters["out"].kind is inspect.Parameter.KEYWORD_ONLY
    for name in ("algorithm", "timeout", "async_op"):
        assert parameters[name].kind is inspect.Parameter.KEYWORD_ONLY
    assert list(parameters)[1] == "x"


def test_out_in_an_old_place_is_refused_and_not_taken_for_something_else():
    x = numpy.ones(2)
    with nezha.init() as comm:
        for call in (lambda: comm.all_gather(x, x.copy()), lambda: comm.gather(x, x.copy()),
                     lambda: comm.scatter(x, x.copy(), 0), lambda: comm.reduce_scatter(x, x.copy()),
                     lambda: comm.all_gather_v(x, x.copy(), [2]), lambda: comm.all_to_all(x, x.copy()),
                     lambda: comm.reduce(x, 0, "sum", x.copy()),
                     lambda: comm.all_to_all_v(x, [2], x.copy(), [2])):
            with pytest.raises(TypeError):
                call()
        assert comm.all_reduce(x).tolist() == [1.0, 1.0]


def test_new_arrays_of_the_forms_with_counts(world):
    def body(comm):
        gathered = comm.all_gather_v(numpy.full(comm.rank + 1, comm.rank), [1, 2])
        mine = comm.reduce_scatter_v(numpy.arange(3), [1, 2])
        swapped = comm.all_to_all_v(numpy.array([10, 11]) + comm.rank, [1, 1], [1, 1])
        return gathered.tolist(), mine.tolist(), swapped.tolist()

    assert world(2, body) == [([0, 1, 1], [0], [10, 11]), ([0, 1, 1], [2, 4], [11, 12])]
