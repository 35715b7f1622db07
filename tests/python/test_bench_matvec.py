"""`nezha bench matvec`: its data, what it refuses, its arithmetic and its report."""

import numpy as np
import pytest

from nezha_tools.bench import matvec_report
from nezha_tools.bench.matvec_run import Request, _compare, summary
from nezha_tools.bench.matvec_spec import Launch, MatvecSpec
from nezha_tools.bench.matvec_worker import Kernel, matrix, measure, vector
from nezha_tools.cli.errors import BenchError

SPEC = MatvecSpec(rows=8, columns=96, iterations=7)


def test_the_ranks_rows_are_those_of_one_matrix():
    parts = [matrix(SPEC, rank, 4) for rank in range(4)]
    assert np.array_equal(np.concatenate(parts), matrix(SPEC, 0, 1))
    assert not np.array_equal(vector(SPEC, 0), vector(SPEC, 1))


def test_ranks_measure_and_check(world):
    found = world(4, lambda comm: measure(comm, SPEC))
    assert len({tuple(each.iteration_us) for each in found}) == 1  # of the slowest rank
    assert len(found[0].iteration_us) == len(found[0].gather_us) == 7 and found[0].wrong == 0
    assert all(0 < gather for gather in found[0].gather_us)
    assert found[0].algorithms and found[0].hosts == 1


@pytest.mark.parametrize("what", ["_parts", "_matrix"])
def test_one_wrong_element_is_seen(world, what):
    def run(comm):
        kernel = Kernel(comm, SPEC)
        right = kernel.wrong()
        if comm.rank == 1 and what == "_parts":
            kernel._parts[1][3] += 1
        if what == "_matrix":  # a product that is not that of these rows
            kernel._whole = [whole + (comm.rank == 0) for whole in kernel._whole]
        return right, kernel.wrong()

    found = world(2, run)
    assert all(right == 0 for right, _ in found) and found[0][1] > 0


@pytest.mark.parametrize("values, why", [
    ({"scalings": ["fair"]}, "--scaling fair: strong, weak or strong,weak"),
    ({"rows": 6}, "--rows 6: 4 ranks cannot have equally many rows"),
    ({"columns": 6, "scalings": ["strong"]}, "--columns 6: 6 elements are no equal parts for 4 ranks")])
def test_what_cannot_be_run_is_refused(values, why):
    with pytest.raises(BenchError, match=why):
        Request(**{"scalings": ["weak"], "nodes": [1, 2], **values})


def test_in_weak_scaling_parts_stay_as_long():
    request = Request(["strong", "weak"], [2, 6], rows=12, columns=1200)
    assert [request.columns_of("weak", nodes) for nodes in (2, 6)] == [1200, 3600]
    assert [request.columns_of("strong", nodes) for nodes in (2, 6)] == [1200, 1200]


def launch(iteration, gather, **values):
    return Launch(**{"iteration_us": [iteration] * 3, "gather_us": [gather] * 3, "algorithms": ["ring"],
                     "hosts": 2, "wire_bytes": 1000.0, "wrong": 0, **values})


def document():
    """One host and two, of two ranks each."""
    rows = []
    for scaling in ("strong", "weak"):
        for nodes, form, found in (
                (1, "by host", [launch(800.0, 80.0)]),
                (2, "flat", [launch(1000.0, 600.0), launch(3000.0, 600.0), launch(1200.0, 700.0)]),
                (2, "by host", [launch(800.0, 300.0, algorithms=["hierarchical"])])):
            rows.append({"scaling": scaling, "nodes": nodes, "ranks": 2 * nodes, "form": form, "rows": 32,
                         "columns": 65536, "limit_us": None if nodes == 1 else 250.0, **summary(found)})
    _compare(rows)
    lab = {"mode": "root", "shaped": True, "shaping": "bulk", "queue_ms": 10, "burst_bytes": [1],
           "congestion_control": "cubic", "mtu": [1500]}
    config = {"nodes": [1, 2], "ranks_per_node": 2, "rails": ["200mbit"], "launches": 3, "options": {},
              "lab": lab}
    return {"config": config, "results": rows, "wrong": 0}


def test_medians_gain_and_efficiency():
    one, flat, by_host, *weak = document()["results"]
    assert flat["iteration_us"] == 1200.0 and flat["gather_us"] == 600.0 and flat["gather_share"] == 0.5
    assert by_host["iteration_gain"] == 1.5 and by_host["gather_gain"] == 2.0
    assert one["gather_gain"] is None and flat["gather_gain"] is None
    assert [row["efficiency"] for row in (one, flat, by_host)] == [1.0, pytest.approx(1 / 3), 0.5]
    assert [row["efficiency"] for row in weak] == [1.0, pytest.approx(2 / 3), 1.0]


def test_the_report(capsys, tmp_path):
    found = document()
    assert matvec_report.publish(found, None, None) == 0
    shown = capsys.readouterr().out
    assert "2 hosts: by host the all_gather is 2.00 x as fast, the iteration 1.50 x" in shown
    assert "32 x 64K" in shown and "hierarchical" in shown and "Wrong elements: 0 OK" in shown
    assert matvec_report.publish({**found, "wrong": 3}, None, None) == 1
    assert "FAILED" in capsys.readouterr().out
    pytest.importorskip("matplotlib")
    matvec_report.plot(found, tmp_path / "matvec.png")
    assert (tmp_path / "matvec.png").stat().st_size > 10_000
