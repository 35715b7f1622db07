"""Hosts with several ranks: explain's layouts, the lab's environment of each rank, the bench's limit."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from nezha import InvalidArgument, _native
from nezha._bench.rows import _limit
from nezha._bench.spec import RailSample, Sample
from nezha._cli.explain import hosts_of
from nezha.lab import _process, _state

RANKS = """
import numpy, nezha
with nezha.init() as comm:
    x = numpy.full(100_003, comm.rank, dtype=numpy.int64)
    comm.all_reduce(x)
    assert (x == sum(range(comm.world_size))).all()
    used = {entry["algorithm"] for entry in comm.flight()["operations"]}
    assert used & {"hierarchical", "leaders"}, used
    print(comm.stats()["host_of"])
"""


def test_ranks_per_host_is_one_number_or_one_for_each_host():
    assert hosts_of("2", 4) == [0, 0, 1, 1]
    assert hosts_of("1,2,4", 99) == [0, 1, 1, 2, 2, 2, 2]
    for wrong in ("3", "0", "1,0", "x"):
        with pytest.raises(ValueError, match="--ranks-per-host"):
            hosts_of(wrong, 4)


def test_explain_names_what_goes_on_inside_hosts():
    request = {"collective": "all_reduce", "bytes": 1 << 24, "world_size": 16,
               "host_of": hosts_of("4", 16)}
    answer = json.loads(_native.query("explain", json.dumps(request)))
    assert answer["algorithm"] == "hierarchical" and "4 hosts of up to 4 ranks" in answer["text"]
    costs = {each["algorithm"]: each["bytes_factor"] for each in answer["candidates"]}
    assert costs["ring"] == pytest.approx(1.875) and costs["hierarchical"] == pytest.approx(1.5)
    request["host_of"].pop()
    with pytest.raises(InvalidArgument, match="host_of"):
        _native.query("explain", json.dumps(request))


def test_ranks_of_a_lab_fill_node_after_node():
    lab = _state.LabState("x", "loopback", 0, 0, "", [0], ["tcp"], "", 0.0, "exact", 0, 1,
                          nodes=[_state.NodeState("", "127.0.0.1"), _state.NodeState("", "127.0.0.1")],
                          ranks_per_node=3)
    places = [_process.rank_env(lab, rank) for rank in range(6)]
    assert [place["NEZHA_LAB_NODE"] for place in places] == ["0"] * 3 + ["1"] * 3
    assert [place["LOCAL_RANK"] for place in places] == ["0", "1", "2"] * 2
    assert {(place["WORLD_SIZE"], place["LOCAL_WORLD_SIZE"]) for place in places} == {("6", "3")}


def test_the_limit_is_that_of_the_hosts():
    rails = [RailSample("eth0", "eth0", 1, rate=1e6), RailSample("shm", "", 1, transport="shm")]
    sample = Sample(1000, 250, 16, [1.0], 0, 0.0, rails, hosts=4)
    assert _limit("all_reduce", sample) == pytest.approx(1.5 * 1000 / 1e6)
    assert _limit("all_to_all", sample) == pytest.approx(4 * 0.75 * 1000 / 1e6)


def test_ranks_of_hosts_find_each_other_under_a_launcher(tmp_path):
    """Two hosts by host_id, as a launcher that knows nothing of Nezha starts their ranks."""
    script = tmp_path / "ranks.py"
    script.write_text(RANKS)
    job = f"NEZHA_HOST_ID=host$((RANK / 3)) exec {sys.executable} {script}"
    command = Path(sys.executable).with_name("nezha")
    done = subprocess.run([command, "run", "-n", "6", "sh", "-c", job], capture_output=True,
                          text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("[0, 0, 0, 1, 1, 1]") == 6
