"""Python objects between ranks, and sendrecv."""

import pickle

import numpy
import pytest

import nezha

RANKS = 3
VALUES = [{"rank": 0, "text": "a" * 100_000}, ["b", [1, 2.5, True]], None]


def test_broadcast(world):
    def body(comm):
        given = VALUES[0] if comm.rank == 1 else None
        got = comm.broadcast_object(given, 1)
        assert (got is given) == (comm.rank == 1)
        return got

    assert world(RANKS, body) == [VALUES[0]] * RANKS


def test_gathers(world):
    def body(comm):
        mine = VALUES[comm.rank]
        return comm.all_gather_object(mine), comm.gather_object(mine, 2)

    assert world(RANKS, body) == [(VALUES, None), (VALUES, None), (VALUES, VALUES)]


def test_scatter(world):
    def body(comm):
        return comm.scatter_object(VALUES if comm.rank == 1 else None, 1)

    assert world(RANKS, body) == VALUES


@pytest.mark.parametrize("values, had", [(None, "None"), ([1, 2], "2 values")])
def test_scatter_wants_one_for_each_rank(world, values, had):
    def body(comm):
        with pytest.raises(nezha.InvalidArgument, match=f"rank 0 passed {had} for 1 ranks"):
            comm.scatter_object(values)
        return True

    assert world(1, body) == [True]


def test_messages_of_any_rank(world):
    def body(comm):
        if comm.rank > 0:
            comm.send_object(VALUES[comm.rank], 0, tag=9)
            return []
        return [comm.recv_object(tag=9) for _ in range(RANKS - 1)]

    got = world(RANKS, body)[0]
    assert sorted(map(repr, got)) == sorted(map(repr, VALUES[1:]))


def test_sendrecv_in_a_circle(world):
    """Large messages, which no rank's kernel takes before the other one receives."""
    def body(comm):
        right, left = (comm.rank + 1) % RANKS, (comm.rank - 1) % RANKS
        mine = numpy.full(1_000_000 + comm.rank, float(comm.rank))
        out = numpy.empty(1_000_000 + left)
        assert comm.sendrecv(mine, right, out, left, timeout=60) is out
        return set(out.tolist())

    assert world(RANKS, body) == [{2.0}, {0.0}, {1.0}]


@pytest.mark.parametrize("value, words", [
    ((1, 2), "a tuple in it"), ({"a": {1, 2}}, "a set in it"), ([{1: 2}], "a key of the object is 1"),
    (numpy.float64(1), "a float64 in it"), (b"x", "a bytes in it"),
])
def test_what_json_would_change_is_refused(world, value, words):
    def body(comm):
        with pytest.raises(nezha.InvalidArgument, match=words):
            comm.broadcast_object(value)
        return comm.broadcast_object("next")

    assert world(1, body) == ["next"]


def test_a_codec_of_the_programs_own(world):
    def body(comm):
        value = (comm.rank, {1: {2}})
        return comm.all_gather_object(value, codec=pickle)

    assert world(2, body) == [[(0, {1: {2}}), (1, {1: {2}})]] * 2


class Runs:
    """What runs code where it is unpickled."""

    def __reduce__(self):
        return pytest.fail, ("it was unpickled",)


def test_nothing_is_unpickled_that_the_receiver_did_not_ask_to_unpickle(world):
    def body(comm):
        if comm.rank == 0:
            comm.send_object(Runs(), 1, codec=pickle)
            return True
        with pytest.raises(ValueError):  # it is no JSON
            comm.recv_object(0)
        return True

    assert world(2, body) == [True] * 2
