"""Calibration: costs found again from operations that the engine itself has timed; the file; tags."""

import json
import os
import statistics
import time

import numpy as np
import pytest

from nezha_tools.cli import console
from nezha_tools.cli.errors import PlanError
from nezha_study.plan.library import ask
from nezha_study.sim import calibration, cluster
from nezha_study.sim.calibration import Inside, RailFacts
from nezha_study.sim.fit import Point, inside, predicted
from nezha.files import whole_file

RAILS = [(24e6, 400e-6), (12e6, 900e-6)]
GAP_S, BURST, SEGMENT = 20e-6, 18000.0, 16384.0
FACTS = [RailFacts("eth0", 1.25e9, BURST, SEGMENT), RailFacts("eth1", 1.25e9, BURST, SEGMENT)]
SIZES = (256 << 10, 1 << 20, 4 << 20)


def world(hosts, rails):
    return cluster.uniform(hosts, rails, calibration.ADDS, GAP_S, [BURST] * len(rails),
                           [SEGMENT] * len(rails))


def timed(hosts, rails, collective, algorithm, size):
    asked = Point(hosts, rails, collective, algorithm, size, 0.0)
    seconds = predicted(world(hosts, [RAILS[rail] for rail in rails]), asked, 1.25e9)
    return Point(hosts, rails, collective, algorithm, size, seconds)


def measured():
    found = [timed(hosts, (rail,), "all_reduce", "ring", size)
             for hosts in (2, 3) for rail in (0, 1) for size in SIZES]
    found += [timed(hosts, (rail,), "all_gather", "direct", 96) for hosts in (2, 3) for rail in (0, 1)]
    return found + [timed(2, (0, 1), "all_reduce", "auto", SIZES[0])]


def test_costs_are_found_again():
    found = calibration.calibrate(FACTS, measured())
    for cost, (rate, latency_s) in zip(found.costs, RAILS):
        assert cost.rate == pytest.approx(rate, rel=0.01)
        assert cost.latency_s == pytest.approx(latency_s, rel=0.1)
        assert cost.error < 0.02
    for hosts in (4, 6):
        for size in (512 << 10, 8 << 20):
            real = timed(hosts, (0, 1), "all_reduce", "ring", size)
            assert predicted(found.cluster(hosts), real, found.nominal) == pytest.approx(
                real.seconds, rel=0.03)


def test_the_file_keeps_all_of_it(tmp_path):
    found = calibration.calibrate(FACTS, measured(), (1e-4, [[0.0, 0.1], [0.2, 0.0]]),
                                  inside=Inside(2e9, 4e-6, 8))
    path = tmp_path / "deep" / "calibration.json"
    console.write_json(calibration.document(found), str(path))
    again = calibration.read(path)
    assert again.facts == found.facts and again.rate_lost == found.rate_lost
    assert again.split_cost_s == pytest.approx(1e-4)
    assert again.inside == Inside(pytest.approx(2e9), pytest.approx(4e-6), 8)
    assert again.cluster(2).inside == pytest.approx((2e9, 4e-6))
    assert [each.rate for each in again.costs] == pytest.approx([each.rate for each in found.costs])
    assert again.nominal == found.nominal and len(found.nominal) == len(FACTS)
    assert [point.size for point in again.points] == [point.size for point in found.points]
    assert list(path.parent.iterdir()) == [path]


def test_answers_say_how_they_are_known():
    found = calibration.calibrate(FACTS, measured())
    assert found.known_as("all_reduce", 2, SIZES[0]) == "measured"
    assert found.measured_us("all_reduce", 2, SIZES[0]) == pytest.approx(1e6 * measured()[-1].seconds)
    assert found.known_as("all_reduce", 3, 2 << 20) == "interpolated"
    assert found.known_as("all_reduce", 4, 2 << 20) == "extrapolated"
    assert found.known_as("all_reduce", 2, 64 << 20) == "extrapolated"
    assert found.known_as("broadcast", 2, 1 << 20) == "extrapolated"


def test_costs_inside_a_host_are_found_again():
    ranks, rate, latency_s = 5, 2e9, 4e-6
    times = [(size, (ranks - 1) * (latency_s + size / ranks / rate)) for size in (96, 1 << 16, 1 << 22)]
    found = inside(ranks, times)
    assert found == pytest.approx((rate, latency_s), rel=0.01)
    with pytest.raises(PlanError, match="two sizes"):
        inside(ranks, times[:1])


def test_one_size_is_not_enough():
    points = [each for each in measured() if each.size in (96, SIZES[0])]
    with pytest.raises(PlanError, match="two sizes"):
        calibration.calibrate(FACTS, points)


@pytest.mark.parametrize("spoil, words", [
    (lambda document: document.update(kind="something else"), "is no file of nezha calibrate"),
    (lambda document: document.update(version=2), "is no file of nezha calibrate"),
    (lambda document: document.pop("gap_us"), "gap_us is missing, and must be a number, 0 or more"),
    (lambda document: document["rails"][0].update(rate_gbps=-1),
     r"rails\[0\].rate_gbps is -1, and must be a number above 0"),
    (lambda document: document["rails"][0].update(rate_gbps="fast"), r"rails\[0\].rate_gbps is 'fast'"),
    (lambda document: document.update(points=[]), r"points is \[\], and must be a list with one entry"),
    (lambda document: document["points"][0].update(hosts=0), r"points\[0\].hosts is 0"),
    (lambda document: document.update(rate_lost=[[0.0]]), "rate_lost must be"),
])
def test_a_damaged_file_is_refused_by_name(tmp_path, spoil, words):
    document = calibration.document(calibration.calibrate(FACTS, measured()))
    spoil(document)
    path = tmp_path / "calibration.json"
    path.write_text(json.dumps(document), encoding="utf-8")
    with pytest.raises(PlanError, match=f"calibration.json:? {words}"):
        calibration.read(path)


def test_an_interrupted_file_is_not_there(tmp_path):
    path = tmp_path / "answer.json"
    path.write_text("before", encoding="utf-8")
    with pytest.raises(KeyboardInterrupt):
        with whole_file(path) as place:
            place.write_text("half of", encoding="utf-8")
            raise KeyboardInterrupt
    assert path.read_text(encoding="utf-8") == "before"
    assert list(tmp_path.iterdir()) == [path]


def test_what_is_no_file_is_written_to_itself(tmp_path):
    pipe, real, link = (tmp_path / name for name in ("pipe", "real", "link"))
    os.mkfifo(pipe)
    with whole_file(pipe) as place:
        assert place == pipe
    real.write_text("before", encoding="utf-8")
    real.chmod(0o600)
    link.symlink_to(real)
    with whole_file(link) as place:
        place.write_text("after", encoding="utf-8")
    assert link.is_symlink() and real.read_text(encoding="utf-8") == "after"
    assert real.stat().st_mode & 0o777 == 0o600


def added_by_numpy(dtype):
    """Bytes per second, of pieces of memory that no cache holds."""
    own, arrived = (np.ones(32 << 20, "u1").view(dtype) for _ in range(2))
    count, took = (256 << 10) // own.itemsize, []
    for at in range(0, own.size - count, count):
        begin = time.perf_counter()
        np.add(own[at:at + count], arrived[at:at + count], out=own[at:at + count])
        took.append(time.perf_counter() - begin)
    return count * own.itemsize / statistics.median(took)


def test_what_a_host_adds_is_measured_and_kept(tmp_path):
    from nezha_study.sim import measuring

    rates = measuring.reduction_rates()
    assert set(rates) == {"float64", "float32", "float16", "bfloat16", "int32"}
    # NumPy's own addition, in the middle of its repetitions too; four bytes or eight make no difference.
    for dtype in ("float32", "float64", "int32"):
        assert 1 / 4 < rates[dtype] / added_by_numpy(dtype) < 4, dtype
    for dtype in ("float16", "bfloat16"):  # are converted, which takes longer for each byte
        assert 1 / 20 < rates[dtype] / rates["float32"] < 2, dtype
    path = tmp_path / "calibration.json"
    found = calibration.calibrate(FACTS, measured(), None, rates)
    document = calibration.document(found)
    path.write_text(json.dumps(document), encoding="utf-8")
    assert document["adds"] == "measured"
    assert calibration.read(path).adds_by_dtype == pytest.approx(rates)
    assert calibration.read(path).cluster(4).adds[0] == pytest.approx(rates["float32"])
    with pytest.raises(PlanError, match="float7"):
        ask("reduction", {"dtype": "float7"})
    with pytest.raises(PlanError, match="seconds"):
        ask("reduction", {"seconds": 0})
