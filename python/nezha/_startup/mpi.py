"""A program with MPI brings its ranks, and a way to reach them (nezha_exchange in nezha.h)."""

from __future__ import annotations

from typing import Any, Tuple

from ..errors import InvalidArgument

_NEEDED = ("Get_rank", "Get_size", "Allgather", "Bcast")


def rank_and_size(comm: Any) -> Tuple[int, int]:
    """The rank and size of an mpi4py communicator, or of an object with the four of its methods in use.

    Allgather and Bcast get memoryviews of fixed lengths, so nothing that a rank sends is unpickled.
    Raises InvalidArgument when it lacks a method.
    """
    missing = [name for name in _NEEDED if not callable(getattr(comm, name, None))]
    if missing:
        raise InvalidArgument(f"mpi is {type(comm).__name__}, without {', '.join(missing)}(): pass "
                              "an mpi4py communicator such as MPI.COMM_WORLD")
    return comm.Get_rank(), comm.Get_size()
