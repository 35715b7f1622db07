"""Nodes of a lab and `--cores-per-rail`: who gets which processors, and what the report says of it."""

import os
import subprocess
import sys

import pytest

from nezha_tools.bench import cores, collective_report
from nezha_tools.cli.errors import BenchError
from nezha_tools.bench.rows import make_rows
from nezha_tools.bench.collective_run import Report, Request, run_in_lab
from nezha_tools.bench.spec import BenchSpec, RailSample, Sample


@pytest.mark.parametrize("processors, nodes, parts", [
    (2, 4, [[0], [0], [1], [1]]),
    (8, 4, [[0, 1], [2, 3], [4, 5], [6, 7]]),
    (2, 3, [[0], [0, 1], [1]]),
    (3, 2, [[0, 1], [1, 2]]),
    (1, 2, [[0], [0]]),
])
def test_each_node_of_a_lab_has_its_part_of_the_processors(processors, nodes, parts):
    assert [cores.processors_of(node, nodes, range(processors)) for node in range(nodes)] == parts


def test_children_keep_to_their_processors_and_the_parent_does_not():
    before = cores.allowed()
    with cores.children_on(before[-1:]):
        child = subprocess.run([sys.executable, "-c", "import os; print(*os.sched_getaffinity(0))"],
                               capture_output=True, text=True, check=True)
    assert [int(word) for word in child.stdout.split()] == before[-1:]
    assert cores.allowed() == before


def test_ranks_take_turns_on_the_allowed_processors():
    assert cores.allot(2, 0, range(8)) == [0, 1]
    assert cores.allot(2, 3, range(8)) == [6, 7]
    assert cores.allot(2, 4, range(8)) == [0, 1]  # they ran out
    assert cores.allot(4, 1, [3, 5]) == [3, 5]  # fewer than wanted
    assert cores.allot(3, 1, range(4)) == [0, 1, 3]


def test_a_rank_must_know_its_place_on_the_host():
    spec = BenchSpec([4], cores=1)
    with pytest.raises(BenchError, match="LOCAL_RANK"):
        cores.restrict(spec, {"RANK": "0"})
    assert cores.restrict(BenchSpec([4], config={"a": "b"}), {}) == {"a": "b"}


def test_a_rank_gets_its_processors():
    before = os.sched_getaffinity(0)
    try:
        config = cores.restrict(BenchSpec([4], cores=1), {"NEZHA_LAB": "x", "RANK": "1"})
        mine = os.sched_getaffinity(0)
        assert mine == {sorted(before)[1 % len(before)]}
        assert config == {"cpu_affinity": str(min(mine))}
    finally:
        os.sched_setaffinity(0, before)


def test_the_report_says_what_was_not_given(monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1})
    few = cores.facts(2, 2, 4)
    assert (few["wanted_per_rank"], few["given_per_rank"], few["shared"]) == (4, 2, True)
    assert "4 were asked for, and this host has 2" in cores.line(few)
    assert "4 ranks share the 2 cores" in cores.line(few)
    assert "of its own" in cores.line(cores.facts(1, 1, 2))
    assert "NOT" not in cores.line(cores.facts(1, 1, 2))
    assert "does not say" in cores.line(cores.facts(1, 1, None))


def test_launchers_say_how_many_ranks_are_here():
    assert cores.ranks_here(8, {"RANK": "5", "WORLD_SIZE": "8", "LOCAL_WORLD_SIZE": "4"}) == 4
    assert cores.ranks_here(8, {"NEZHA_LAB": "x"}) == 8
    assert cores.ranks_here(8, {}) is None


def sample(cpu_s, given):
    return Sample(size=1 << 20, count=1 << 18, ranks=2, times_us=[1e6, 1e6], mean_us=1e6, wrong=0,
                  cpu_s=cpu_s, rails=[RailSample("eth0", "eth0", 1 << 20)], cores=given)


def test_columns_show_what_was_given_and_used(capsys):
    spec = BenchSpec([1 << 20])
    rows = make_rows(spec, [[sample(2.0, 1)]])
    free = make_rows(spec, [[sample(6.0, 4)]])
    assert rows[0]["cores_given"] == 1 and rows[0]["cores_used"] == pytest.approx(0.5)
    config = {"collective": "all_reduce", "ranks": 2, "rails": ["1gbit"], "one_rail": None,
              "cores": {**cores.facts(1, 1, 2)}}
    document = {"config": config, "rows": rows, "free": {"rows": free},
                "wire_check": {"agree": None, "overhead": None, "disagreements": []}}
    assert collective_report.publish(Report(document, [None]), None, None) == 0
    lines = capsys.readouterr().out.splitlines()
    assert any(line.startswith("# cores: 1 for each rank") for line in lines)
    data = [line for line in lines if not line.startswith("#")][0].split()
    assert data[-5:-1] == ["1", "0.50", "1000000", "1.50"]


def test_other_libraries_would_not_be_limited():
    request = Request(BenchSpec([4]), cores_per_rail=1, peers=["gloo"])
    with pytest.raises(BenchError, match="--compare"):
        run_in_lab(request, lambda what, total: lambda record: None)
