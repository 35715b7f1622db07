"""table_file: every rank keeps what its table policy has learned, and nothing else replaces it."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any, Dict

import numpy
import pytest

import nezha

pytestmark = pytest.mark.usefixtures("loopback")

RANKS = 3


def learned(rank: int) -> Dict[str, Any]:
    """A table that only this rank can have: of a size class of its own."""
    return {"version": 1, "rows": [{
        "collective": "all_reduce", "size_class": 20 + rank, "group": 0, "state": "all",
        "settled": True, "single_rail": 0, "up": [True, True], "share": [0.75, 0.25],
        "single_s": [0.1 * (rank + 1), 0.3], "all_s": 0.08, "operations": 40}]}


def rows(table: Dict[str, Any]) -> Any:
    return [(row["size_class"], row["single_s"]) for row in table["rows"]]


def texts(directory: Path) -> Dict[str, str]:
    return {path.name: path.read_text() for path in directory.iterdir()}


@pytest.fixture
def kept(world, tmp_path):
    """(world, the option, its directory), after a job in which every rank has learned its own."""
    setting = {"table_file": str(tmp_path / "table.json")}
    world(RANKS, lambda comm: comm.load_table(learned(comm.rank)), policy="table", config=setting)
    return world, setting, tmp_path


def test_every_rank_gets_its_own_rows_back(kept):
    world, setting, directory = kept
    assert sorted(texts(directory)) == [f"table.json.{rank}" for rank in range(RANKS)]
    tables = world(RANKS, lambda comm: comm.table(), policy="table", config=setting)
    assert [rows(table) for table in tables] == [rows(learned(rank)) for rank in range(RANKS)]


@pytest.mark.parametrize("policy", ["pull", "round_robin", "static"])
def test_a_run_with_another_policy_loses_nothing(kept, policy):
    world, setting, directory = kept
    before = texts(directory)
    world(RANKS, lambda comm: comm.all_reduce(numpy.ones(1000)), policy=policy,
          config=setting if policy != "static" else {**setting, "weights": "1"})
    assert texts(directory) == before


def test_a_file_that_cannot_be_used_is_left_alone(kept, capfd):
    world, setting, directory = kept
    (directory / "table.json.1").write_text('{"version": 9}')
    world(RANKS, lambda comm: comm.all_reduce(numpy.ones(1000)), policy="table", config=setting)
    assert (directory / "table.json.1").read_text() == '{"version": 9}'
    assert rows(json.loads((directory / "table.json.0").read_text())) == rows(learned(0))
    assert "table.json.1 was not used" in capfd.readouterr().err


def test_a_pipe_in_its_place_keeps_nobody_waiting(world, tmp_path, capfd):
    for rank in range(2):
        os.mkfifo(tmp_path / f"table.json.{rank}")
    world(2, lambda comm: comm.all_reduce(numpy.ones(1000)), policy="table",
          config={"table_file": str(tmp_path / "table.json")})
    assert "table.json.1' is not a regular file" in capfd.readouterr().err
    assert (tmp_path / "table.json.1").is_fifo()
    for option in ("calibration_file", "algorithm_file"):
        with pytest.raises(nezha.Error, match="table.json.1' is not a regular file"):
            world(2, lambda comm: None, config={option: str(tmp_path / "table.json.1")})


def test_the_name_may_say_where_the_rank_is(world, tmp_path):
    world(2, lambda comm: comm.load_table(learned(comm.rank)), policy="table",
          config={"table_file": str(tmp_path / "of-%r.json")})
    assert sorted(texts(tmp_path)) == ["of-0.json", "of-1.json"]


def test_what_is_saved_stays_when_a_job_fails(kept):
    world, setting, directory = kept
    before = texts(directory)
    with pytest.raises(nezha.Error):
        world(RANKS, lambda comm: comm.abort() or comm.barrier(), policy="table", config=setting)
    assert texts(directory) == before
