"""`nezha plan check`: measured tables and single numbers against the hardware."""

import json
from pathlib import Path

import pytest

from nezha_study.plan import check
from nezha_tools.cli.errors import PlanError
from nezha_study.plan.measured import read_measured
from nezha_study.plan.verdict import GOOD

A100_TABLE = Path(__file__).parent / "data" / "nccl_a100_8.json"


def wires(**changes):
    return check.Wires(**{"chip": None, "nics": None, "against": None, "in_network": False, **changes})


def nccl(path, times, **changes):
    """Writes a table of nccl-tests: {size: microseconds}."""
    document = {
        "version": 3, "args": ["/opt/all_reduce_perf"], "config": {
            "nthreads": 1, "ngpus": 1,
            "devices": [{"hostname": f"node{rank // 8}"} for rank in range(16)]
        }, "results": [{
            "size": size, "out_of_place": {"time": time, "alg_bw": size / time / 1e3, "nwrong": 0}
        } for size, time in times.items()], **changes
    }
    path.write_text(json.dumps(document))
    return path


def steady(rate, startup=20.0, ranks=16):
    """Times in us of an all_reduce that reaches `rate` bytes per second of bus bandwidth."""
    return {
        1 << power: startup + 2 * (ranks - 1) / ranks * (1 << power) / rate * 1e6
        for power in range(16, 33, 2)
    }


def bad_rows(document):
    return {row["size"]: row["verdict"] for row in document["rows"] if row["bad"]}


def test_the_published_table_of_an_a100_node():
    document = check.table(A100_TABLE, wires(chip="A100"), 25 << 20)
    assert (document["ranks"], document["nodes"], document["grade"]) == (8, 1, "good")
    assert document["best_percent"] == pytest.approx(78.3, abs=0.05)
    assert bad_rows(document) == {16777216: "slower than a smaller size"}  # 106 after 110 GB/s
    assert document["rows"][0]["verdict"] == "latency" and document["rows"][-1]["verdict"] == "good"
    pieces = next(row["in_pieces"] for row in document["rows"] if row["size"] == 4 << 20)
    assert pieces == pytest.approx(134.22 / 41.33, rel=1e-3)
    assert document["asked"]["how"] == "interpolated" and 276.6 < document["asked"]["time_us"] < 424.0
    assert document["causes"] == []


def test_measured_interpolated_and_extrapolated_are_told_apart():
    table = read_measured(A100_TABLE)
    assert table.time_at(1 << 20) == (pytest.approx(101.9e-6), "measured")
    between, how = table.time_at(3 << 19)
    assert how == "interpolated" and 101.4e-6 < between < 101.9e-6
    beyond, how = table.time_at(1 << 36)
    assert how == "extrapolated" and beyond == pytest.approx(4 * 127997e-6, rel=0.15)
    assert table.time_at(4)[1] == "extrapolated"


def test_a_good_cluster(tmp_path):
    path = nccl(tmp_path / "t.json", steady(0.85 * 400e9))
    document = check.table(path, wires(chip="H100", nics=(8, 50e9)), None)
    assert (document["ranks"], document["nodes"]) == (16, 2) and document["hardware"]["gb_per_s"] == 400
    assert document["grade"] == "good" and bad_rows(document) == {} and document["causes"] == []


def test_half_of_the_nics(tmp_path):
    path = nccl(tmp_path / "t.json", steady(0.8 * 200e9))
    document = check.table(path, wires(chip="H100", nics=(8, 50e9)), None)
    assert document["grade"] == "low"
    assert any("4 of 8 NICs" in cause for cause in document["causes"])
    assert any("both directions" in cause for cause in document["causes"])  # 40 % may be that, too


def test_peers_through_pcie(tmp_path):
    path = nccl(tmp_path / "t.json", steady(27e9, ranks=8), config={
        "nthreads": 1, "ngpus": 8, "devices": [{"hostname": "a"}]})
    document = check.table(path, wires(chip="A100"), None)
    assert document["ranks"] == 8 and any("PCIe 4" in cause for cause in document["causes"])


def test_more_than_the_wire_is_a_reduction_in_the_network(tmp_path):
    path = nccl(tmp_path / "t.json", steady(480e9, startup=0, ranks=8), config={
        "nthreads": 1, "ngpus": 8, "devices": [{"hostname": "a"}]})
    document = check.table(path, wires(chip="H100"), None)
    assert document["grade"] == "more than the wire carries" and "--in-network" in document["causes"][0]
    assert "308.6 GB/s" in document["causes"][0]
    again = check.table(path, wires(chip="H100", in_network=True), None)
    assert again["best_percent"] == pytest.approx(68.6, abs=0.1) and again["grade"] == "fair"


def test_rows_that_are_wrong(tmp_path):
    times = steady(340e9)
    path = nccl(tmp_path / "t.json", times)
    document = json.loads(path.read_text())
    document["results"][2]["out_of_place"]["nwrong"] = 7
    document["results"][4]["out_of_place"]["alg_bw"] *= 2
    document["results"][6]["out_of_place"].update(time=4 * times[1 << 28],
                                                  alg_bw=(1 << 28) / (4 * times[1 << 28]) / 1e3)
    path.write_text(json.dumps(document))
    found = bad_rows(check.table(path, wires(nics=(8, 50e9)), None))
    assert found[1 << 20] == "7 wrong elements" and "not its size / time" in found[1 << 24]
    assert found[1 << 28] == "slower than a smaller size"


def test_an_all_to_all_shares_the_nics(tmp_path):
    path = nccl(tmp_path / "t.json", steady(50e9), args=["alltoall_perf"])
    document = check.table(path, wires(nics=(8, 50e9)), None)
    # 8 ranks a node, of whose 15 peers 8 are elsewhere.
    assert document["collective"] == "all_to_all"
    assert document["hardware"]["gb_per_s"] == pytest.approx(50 * 15 / 8)


def test_a_table_of_ours(tmp_path):
    row = {"size": 1 << 20, "time_us": 6990.5, "algbw_gbps": 1.2, "wrong": 0,
           "rails": [{"rate_gbps": 1.0, "transport": "tcp"}, {"rate_gbps": 1.0, "transport": "tcp"}]}
    document = {"config": {"collective": "all_reduce", "ranks": 4},
                "rows": [row, {**row, "size": 4 << 20, "time_us": 4 * 6990.5}]}
    path = tmp_path / "nezha.json"
    path.write_text(json.dumps(document))
    found = check.table(path, wires(), None)
    assert found["hardware"] == {"what": "the rails in the file", "gb_per_s": 0.25, "gbit_per_s": 2.0}
    assert found["best_percent"] == pytest.approx(90.0, abs=0.05) and found["grade"] == "good"
    assert found["nodes"] == 4
    document["config"]["ranks_per_node"] = 2
    path.write_text(json.dumps(document))
    assert check.table(path, wires(), None)["nodes"] == 2


@pytest.mark.parametrize("document, words", [
    ({"config": 7, "rows": []}, "config needs ranks"),
    ({"config": {"collective": "all_reduce", "ranks": 1}, "rows": []}, "config needs ranks of 2 or more"),
    ({"config": {"collective": "barrier", "ranks": 4}, "rows": []}, "a collective that moves bytes"),
    ({"config": {"collective": "all_reduce", "ranks": 4}, "rows": [7]}, "must be an object"),
    ({"config": {"collective": "all_reduce", "ranks": 4, "ranks_per_node": 0}, "rows": []},
     "config.ranks_per_node 0"),
    ({"config": {"collective": "all_reduce", "ranks": 4},
      "rows": [{"size": 4, "time_us": 1, "rails": 7}]}, "rails must be a list"),
    ({"config": {"collective": "all_reduce", "ranks": 4}, "rows": [{"size": 4}]},
     "its time None must be"),
    ([], "is no table"),
])
def test_tables_of_ours_that_are_none(tmp_path, document, words):
    path = tmp_path / "nezha.json"
    path.write_text(json.dumps(document))
    with pytest.raises(PlanError, match=words):
        read_measured(path)


def test_one_number():
    good = check.number(235e9, 8, wires(chip="A100"))
    assert good["grade"] == "good" and good["percent"] == pytest.approx(78.3, abs=0.05)
    assert "39 %" in good["of_both_directions"] and good["percent"] / 100 > GOOD
    low = check.number(235e9, 8, wires(against=600e9))
    assert low["grade"] == "low" and "both directions" in low["causes"][0]
    pair = check.number(47.671e9, 2, wires(chip="MI300X"))
    assert pair["hardware"]["gb_per_s"] == 64
    assert check.number(480e9, 8,
                        wires(chip="H100",
                              in_network=True))["wire_gb_per_s"] == pytest.approx(308.6, abs=0.05)


@pytest.mark.parametrize("change, words", [
    (lambda d: d.update(args=["sleep"]), "args.0. 'sleep': it must be the program"),
    (lambda d: d.update(args=7), "args.0. ''"),
    (lambda d: d.update(config=7), "give 0 ranks"),
    (lambda d: d["config"].update(devices=7), "give 0 ranks"),
    (lambda d: d["results"].append(7), "must be an object with size"),
    (lambda d: d["config"].update(devices=[]), "give 0 ranks"),
    (lambda d: d["config"].update(ngpus=0), "config.ngpus 0: it must be"),
    (lambda d: d["results"][0].update(size=-4), "size -4: it must be a whole number of bytes"),
    (lambda d: d["results"][0]["out_of_place"].update(time="nan"), "time 'nan' must be a number of "
                                                                   "microseconds"),
    (lambda d: d["results"][0]["out_of_place"].update(time=0), "above 0"),
    (lambda d: d["results"][0].update(out_of_place=None), "neither out_of_place nor in_place"),
    (lambda d: d.update(results=d["results"][:1]), "two different sizes"),
    (lambda d: d.update(results=7), "is no table of nccl-tests"),
])
def test_tables_that_are_none(tmp_path, change, words):
    path = nccl(tmp_path / "t.json", steady(340e9))
    document = json.loads(path.read_text())
    change(document)
    path.write_text(json.dumps(document))
    with pytest.raises(PlanError, match=words) as caught:
        check.table(path, wires(nics=(8, 50e9)), None)
    assert str(path) in str(caught.value)


def test_hardware_that_is_not_named(tmp_path):
    path = nccl(tmp_path / "t.json", steady(340e9))
    with pytest.raises(PlanError, match="nics is missing: the table is of 2 nodes"):
        check.table(path, wires(chip="H100"), None)
    with pytest.raises(PlanError, match="accelerator is missing"):
        check.table(A100_TABLE, wires(), None)
    with pytest.raises(PlanError, match="accelerator is missing"):
        check.number(1e9, 8, wires())
    with pytest.raises(PlanError, match="ranks 1: it must be"):
        check.number(1e9, 1, wires(chip="H100"))
    path.write_text("{")
    with pytest.raises(PlanError, match="is no JSON"):
        check.table(path, wires(), None)
