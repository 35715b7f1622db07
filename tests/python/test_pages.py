"""Names of the Python interface that pages use are there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import nezha

DOCS = Path(__file__).resolve().parents[2] / "docs"
OTHERS = {"Get_rank", "Get_size", "Allreduce", "Bcast", "Allgather", "Alltoall", "Alltoallv", "Gather",
          "Iallreduce", "Send", "Sendrecv", "bcast", "Split", "Shrink", "Reduce_scatter_block"}


@pytest.mark.parametrize("page, calls", [("python.md", 2), ("from_others.md", 20)])
def test_calls_of_a_page_exist(page, calls):
    """mpi4py's calls are on the left of its table."""
    text = (DOCS / page).read_text("utf-8")
    of_comm = set(re.findall(r"comm\.(\w+)\b", text)) - OTHERS
    assert len(of_comm) >= calls
    unknown = {name for name in of_comm if not hasattr(nezha.Communicator, name)}
    assert unknown <= {"rank", "world_size"}  # of objects
    of_nezha = set(re.findall(r"nezha\.(\w+)[(`]", text)) - {"h", "Error"}
    assert of_nezha and not {name for name in of_nezha if not hasattr(nezha, name)}


def test_every_call_of_a_communicator_is_on_a_page():
    text = "".join((DOCS / page).read_text("utf-8")
                   for page in ("python.md", "statistics.md", "debugging.md", "balancing.md"))
    calls = {name for name in dir(nezha.Communicator) if not name.startswith("_")}
    calls -= {"group", "create"}  # which go
    assert not {name for name in calls if not re.search(rf"\b{name}\b[(`_]", text)}
