"""What a replay adds up and checks: every way in which a part can be wrong shows."""

from __future__ import annotations

import numpy as np
import pytest

from nezha_tools.bench.replayed import reference, refuse_wrong
from nezha_tools.cli.errors import BenchError

CHUNK = 1 << 12
COUNT = 3 * CHUNK + 5


def summed(ranks, step=2, operation=1):
    """What those ranks of four have when their data have been added up."""
    given = reference(4, step, operation)
    return sum(given.input(rank, COUNT) for rank in ranks)


def in_place(chunk):
    """The right sums of four ranks, with that in the place of the second chunk."""
    buffer = summed(range(4))
    buffer[CHUNK:2 * CHUNK] = chunk[CHUNK:2 * CHUNK]
    return buffer


def swapped():
    """The right sums with the first two chunks in each other's places."""
    buffer = summed(range(4))
    return np.concatenate((buffer[CHUNK:2 * CHUNK], buffer[:CHUNK], buffer[2 * CHUNK:]))


DAMAGE = {
    "another chunk": in_place(np.roll(summed(range(4)), CHUNK)),
    "one element further": in_place(np.roll(summed(range(4)), 1)),
    "one rank twice": in_place(summed([0, 1, 1, 2, 3])),
    "one rank missing": in_place(summed([0, 1, 3])),
    "one rank for another": in_place(summed([1, 1, 1, 3])),  # 0 + 1 + 2 + 3 is 1 + 1 + 1 + 3
    "another operation": in_place(summed(range(4), operation=0)),
    "an earlier step": in_place(summed(range(4), step=1)),
    "not added up": in_place(summed([2])),
}


def test_the_right_sums_are_right():
    assert reference(4, 2, 1).wrong(summed(range(4))) == 0


@pytest.mark.parametrize("what", DAMAGE)
def test_a_wrong_chunk_shows(what):
    # By chance an element may be right: one in a million.
    assert CHUNK - 5 <= reference(4, 2, 1).wrong(DAMAGE[what]) <= CHUNK


def test_two_swapped_chunks_show():
    assert 2 * CHUNK - 5 <= reference(4, 2, 1).wrong(swapped()) <= 2 * CHUNK


def test_the_error_names_rank_operation_and_size():
    refuse_wrong(0, COUNT, 3, "step 2, bucket 1")
    with pytest.raises(BenchError, match="rank 3: 7 of 262144 ELEMENTS WRONG after the all_reduce of "
                                         "step 2, bucket 1, 1M: nothing"):
        refuse_wrong(7, 1 << 18, 3, "step 2, bucket 1")
