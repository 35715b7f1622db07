"""calibration_file: the library chooses by what nezha calibrate measured, on all ranks alike."""

from __future__ import annotations

import json
from typing import Any, Dict, List

import numpy
import pytest

from conftest import run_threads

import nezha
from nezha_study.plan import algorithms
from nezha_study.plan.library import compare
from nezha_study.sim import calibration
from nezha_study.sim.operation import Question, simulate

pytestmark = pytest.mark.usefixtures("loopback")

RANKS = 4
COUNT = 64 << 10  # 256 KiB of float32: a ring by what devices state and 30 us a message


def content(names: List[str], **changes: Any) -> Dict[str, Any]:
    """A file as nezha calibrate writes it. By default messages cost nothing, and bytes much."""
    rail = {"rate_gbps": 0.1, "latency_us": 0.0, "nominal_gbps": None, "burst_bytes": 0.0,
            "segment_bytes": 0.0, "fit_error": 0.0, "gap_us": 0.0, **changes}
    point = {"hosts": 2, "rails": [0], "collective": "all_reduce", "algorithm": "ring", "size": 1 << 20,
             "time_us": 1000.0}
    return {"kind": "nezha calibration", "version": 1,
            "rails": [{"name": name, **rail} for name in names], "gap_us": 0.0, "adds_gb_per_s": 4.0,
            "adds": "measured", "adds_by_dtype": {}, "rate_lost": None,
            "split_cost_us": None, "points": [point]}


def names(world) -> List[str]:
    return world(2, lambda comm: [rail["name"] for rail in comm.rails()])[0]


def chosen(world, **options) -> List[str]:
    """The algorithm that each rank ran."""
    def body(comm):
        comm.all_reduce(numpy.ones(COUNT, numpy.float32))
        return comm.flight()["operations"][0]["algorithm"]

    return world(RANKS, body, **options)


def test_another_calibration_is_another_algorithm_on_all_ranks(world, tmp_path):
    path, rails = tmp_path / "calibration.json", names(world)
    found = {}
    for name, changes in (("bytes are dear", {}), ("messages are dear", {"rate_gbps": 1e4,
                                                                         "latency_us": 1e4})):
        path.write_text(json.dumps(content(rails, **changes)))
        algorithms = chosen(world, config={"calibration_file": str(path)})
        assert len(set(algorithms)) == 1, algorithms
        found[name] = algorithms[0]
    assert found == {"bytes are dear": "ring", "messages are dear": "recursive_doubling"}


def test_plan_and_sim_choose_as_the_library_does_where_rails_differ(world, tmp_path):
    """Short operations go over the fastest rail whole, so its rate decides, and not the mean."""
    two = {"rails": "127.1.0.1/32,127.2.0.1/32"}
    found = world(2, lambda comm: [rail["name"] for rail in comm.rails()], config=two)[0]
    document = content(found, latency_us=16.0)  # what the library counts with
    for rail, rate in zip(document["rails"], (1.0, 0.1)):
        rail["rate_gbps"] = rate
    path = tmp_path / "calibration.json"
    path.write_text(json.dumps(document))
    sizes = [4 << 10, 6 << 10, 32 << 10, 64 << 10, 256 << 10]

    def body(comm):
        for size in sizes:
            comm.all_reduce(numpy.ones(size // 4, numpy.float32))
        return [each["algorithm"] for each in comm.flight()["operations"]]

    ran, = {tuple(each) for each in world(RANKS, body, config={"calibration_file": str(path), **two})}
    measured = calibration.read(path)
    question = algorithms.Question("all_reduce", RANKS, measured.rails(), adds=measured.adds,
                                   calibrated=True)
    assert tuple(algorithms.answer(question, size).chosen for size in sizes) == ran
    asked = [Question("all_reduce", size) for size in sizes]
    assert tuple(simulate(measured.cluster(RANKS), each).plan.algorithm for each in asked) == ran
    assert ran[1] == "recursive_doubling" != compare("all_reduce", sizes[1], RANKS, 1.1e9 / 8, 16e-6,
                                                     2).chosen


@pytest.mark.parametrize("inside, shm, expected", [
    (None, "auto", "leaders"),
    ({"rate_gb_per_s": 1.0, "latency_us": 1e6, "ranks": 2}, "auto", "recursive_doubling"),
    ({"rate_gb_per_s": 1.0, "latency_us": 1e6, "ranks": 2}, "off", "leaders")])
def test_costs_inside_hosts_are_as_measured_through_memory(world, tmp_path, inside, shm, expected):
    path = tmp_path / "calibration.json"
    path.write_text(json.dumps({**content(names(world), latency_us=100.0), "inside": inside}))

    def body(rank):
        config = {"calibration_file": str(path), "shm": shm, "host_id": f"host {rank // 2}"}
        with nezha.init(rank, RANKS, store=f"hash://inside-{tmp_path}", config=config) as comm:
            comm.all_reduce(numpy.ones(16, numpy.float32))
            return comm.flight()["operations"][0]["algorithm"]

    assert run_threads(RANKS, body) == RANKS * [expected]
    read = calibration.read(path).cluster(2).inside
    assert read == ((3e9, 5e-6) if inside is None else (1e9, 1.0))


def test_the_balancer_begins_with_the_measured_rates(world, tmp_path):
    path, rails = tmp_path / "calibration.json", names(world)
    path.write_text(json.dumps(content(rails, rate_gbps=3.2)))
    rates = world(2, lambda comm: [rail["rate_bytes_per_s"] for rail in comm.rails()],
                  config={"calibration_file": str(path)})
    assert rates == 2 * [[pytest.approx(4e8)] * len(rails)]


def test_ranks_with_different_files_are_told(world, tmp_path):
    rails = names(world)
    for rank in range(2):
        (tmp_path / f"{rank}.json").write_text(json.dumps(content(rails, latency_us=float(rank))))
    words = r"rank 1 .* calibration=\w{8} .*, but rank 0 .* calibration=\w{8} .*;"
    with pytest.raises(nezha.Mismatch, match=words):
        world(2, lambda comm: comm.rank, config={"calibration_file": str(tmp_path / "%r.json")})


@pytest.mark.parametrize("changes, words", [
    ({"rate_gbps": -1.0}, r"'rails\[0\].rate_gbps' is -1, and must be Gbit/s above 0"),
    ({"latency_us": None}, r"'rails\[0\].latency_us' is missing or null"),
    ({"name": "nowhere"}, "measured on the rails nowhere.* and rank 0 has")])
def test_a_file_that_cannot_be_used(world, tmp_path, changes, words):
    path, rails = tmp_path / "calibration.json", names(world)
    path.write_text(json.dumps(content(rails, **changes)))
    with pytest.raises(nezha.Error, match=f"calibration_file .*calibration.json: .*{words}"):
        world(2, lambda comm: comm.rank, config={"calibration_file": str(path)})


def test_a_file_that_is_not_there(world, tmp_path):
    with pytest.raises(nezha.Error, match="nothing.json"):
        world(2, lambda comm: comm.rank, config={"calibration_file": str(tmp_path / "nothing.json")})
