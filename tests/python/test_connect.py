"""connect=demand: who is connected with whom, and what reaches ranks that are not connected."""

from __future__ import annotations

import threading
from typing import Any, Callable, List, Set

import numpy
import pytest

import nezha

pytestmark = pytest.mark.usefixtures("loopback")

WORLD = Callable[..., List[Any]]
ON_DEMAND = {"connect": "demand", "rails": "127.1.0.1/32,127.2.0.1/32"}


def peers_of(comm: Any) -> Set[int]:
    """The ranks with which this one is connected, on both rails alike."""
    rails = [{peer["rank"] for peer in rail["peers"]} for rail in comm.rails()]
    assert rails[0] == rails[1]
    return rails[0]


def test_a_ring_has_two_neighbours(world: WORLD) -> None:
    def body(comm: Any) -> Set[int]:
        for _ in range(3):
            assert comm.all_reduce(numpy.full(6000, 1.0), algorithm="ring")[-1] == 6
        return peers_of(comm)

    neighbours = world(6, body, config=ON_DEMAND)
    assert neighbours == [{(rank - 1) % 6, (rank + 1) % 6} for rank in range(6)]


def test_everybody_is_connected_at_the_start_otherwise(world: WORLD) -> None:
    connected = world(5, peers_of, config={**ON_DEMAND, "connect": "auto"})
    assert connected == [set(range(5)) - {rank} for rank in range(5)]


def test_messages_connect_their_two_ranks(world: WORLD) -> None:
    done = threading.Barrier(4)

    def body(comm: Any) -> Set[int]:
        if comm.rank == 3:
            comm.send(numpy.arange(5), 1)
        if comm.rank == 1:
            received = numpy.zeros(5, int)
            comm.recv(received, 3)
            assert received.tolist() == [0, 1, 2, 3, 4]
        done.wait()
        return peers_of(comm)

    assert world(4, body, config=ON_DEMAND) == [set(), {3}, set(), {1}]


def test_an_error_reaches_who_is_connected_with_nobody_that_has_it(world: WORLD) -> None:
    waits = threading.Event()

    def body(comm: Any) -> None:
        if comm.rank == 1:
            assert waits.wait(30)
            comm.abort()
        elif comm.rank == 6:
            waits.set()
            with pytest.raises(nezha.Aborted):
                comm.recv(numpy.zeros(5), 7)
        with pytest.raises(nezha.Aborted):
            comm.barrier()

    world(8, body, config=ON_DEMAND)


def test_shrink_connects_all(world: WORLD) -> None:
    def body(comm: Any) -> Set[int]:
        with comm.shrink() as again:
            assert again.world_size == 5
            return peers_of(comm)

    assert world(5, body, config=ON_DEMAND) == [set(range(5)) - {rank} for rank in range(5)]
