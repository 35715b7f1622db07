"""`nezha bench switch` and `table1`: their runs and reports, and the limit beside an aggregation node."""

import pytest

from nezha_tools.bench import measure
from nezha_tools.cli.errors import BenchError
from nezha_tools.bench.formulas import limit_seconds
from nezha_tools.bench.rows import make_rows
from nezha_tools.bench.spec import BenchSpec, RailSample, Sample
from nezha_tools.bench import aggregation_report, aggregation_run
from nezha_tools.bench import aggregation_command as bench_aggregation

GBIT = 125e6


# ---- runs

def test_the_table_over_hosts_and_a_node():
    runs = aggregation_run.table(["1gbit", "agg:1gbit"], ["tcp", "agg"])
    assert [run.what for run in runs] == ["1gbit alone", "agg:1gbit alone", "1:1", "99:1", "1:99"]
    assert [run.only for run in runs] == [0, 1, None, None, None]
    assert [run.config.get("aggregator_share") for run in runs] == [None, "1", "0.5", "0.01", "0.99"]


def test_the_node_may_come_first():
    runs = aggregation_run.table(["agg:1gbit", "ofi:1gbit"], ["agg", "ofi"])
    assert [run.config.get("aggregator_share") for run in runs] == ["1", None, "0.5", "0.99", "0.01"]


def test_the_table_over_two_host_rails():
    runs = aggregation_run.table(["1gbit", "1gbit"], ["tcp", "tcp"])
    assert [run.what for run in runs[:2]] == ["1gbit alone (0)", "1gbit alone (1)"]
    assert runs[3].config == {"policy": "static", "weights": "99:1"}


@pytest.mark.parametrize("rails", [["1gbit"], ["1gbit"] * 3, ["agg:1gbit", "agg:1gbit"]])
def test_other_tables_are_refused(rails):
    with pytest.raises(BenchError, match="want two"):
        aggregation_run.table(rails, ["agg" if rail.startswith("agg") else "tcp" for rail in rails])


def test_the_switch_bench_needs_one_node():
    for rails in (["1gbit"], ["1gbit", "agg:1gbit"]):
        with pytest.raises(BenchError, match="one agg: rail"):
            aggregation_run.run_switch(aggregation_run.Request([8], [2], rails), lambda *_: None)


@pytest.mark.parametrize("text", ["", "x", "1", "2,,4", "-2", "2,1"])
def test_numbers_of_nodes(text):
    assert bench_aggregation._numbers("2,4, 16") == [2, 4, 16]
    with pytest.raises(BenchError, match="--nodes"):
        bench_aggregation._numbers(text)


# ---- limits and shares

def test_through_a_node_data_crosses_the_wire_once():
    assert limit_seconds("all_reduce", 4, 125_000_000, [], GBIT) == pytest.approx(1.0)
    assert limit_seconds("all_reduce", 4, 125_000_000, [GBIT]) == pytest.approx(1.5)
    # Both done at the same time: 1 / (1 + 1 / 1.5)
    assert limit_seconds("all_reduce", 4, 125_000_000, [GBIT], GBIT) == pytest.approx(0.6)
    assert limit_seconds("broadcast", 4, 125_000_000, [GBIT], GBIT) == pytest.approx(0.5)
    assert limit_seconds("all_reduce", 4, 1 << 20, [None], GBIT) is None
    assert limit_seconds("all_reduce", 4, 1 << 20, []) is None


def sample(size, rails, times=(100.0, 300.0, 200.0)):
    return Sample(size=size, count=size // 4, ranks=4, times_us=list(times), mean_us=200.0, wrong=0,
                  cpu_s=0.1, rails=rails)


def test_a_device_that_leads_to_the_node_counts_once():
    rails = [RailSample("eth0", "eth0", 0, None, GBIT), RailSample("eth1", "eth1", 100, None, GBIT),
             RailSample("eth1 agg", "eth1", 300, None, GBIT, "agg")]
    found = sample(125_000_000, rails)
    (row,) = make_rows(BenchSpec([found.size]), [[found]])
    assert row["limit_us"] == pytest.approx(0.6e6)
    cell = aggregation_run.cell_of(found, row)
    assert cell["node_share"] == 0.75
    assert (cell["min_us"], cell["avg_us"], cell["max_us"], cell["operations"]) == (100, 200, 300, 3)


class FakeComm:
    """What measure asks of a communicator for its rails."""

    def __init__(self, stats):
        self._stats = stats

    def rails(self):
        return [{"name": "eth1", "device": "eth1", "transport": "tcp", "bytes_sent": 5}]

    def stats(self):
        return self._stats


def test_the_way_to_the_node_is_a_rail_of_the_bench():
    assert len(measure._all_rails(FakeComm({}))) == 1
    found = measure._all_rails(FakeComm({"aggregation": {"device": "eth1", "bytes_sent": 7}}))
    assert found[1] == {"name": "eth1 agg", "device": "eth1", "transport": "agg", "bytes_sent": 7}


# ---- reports

def cell(size, time, share=0.0):
    return {"size": size, "operations": 10, "min_us": time / 2, "max_us": time * 2, "avg_us": time,
            "median_us": time, "time_us": time, "wrong": 0, "of_limit": 0.9, "cpu_s_per_gb": 1.0,
            "node_share": share}


def switch_document(share=1.0):
    results = [{"nodes": nodes, "size": size, "hosts": cell(size, 100.0 * nodes),
                "switch": cell(size, 150.0, share), "ratio": 100.0 * nodes / 150.0}
               for nodes in (2, 4) for size in (8, 64 << 20)]
    results[0]["ratio"] = results[1]["ratio"] = 0.5
    return {"config": {"nodes": [2, 4], "rails": ["agg:1gbit"], "sizes": [8, 64 << 20], "agg_tree": None,
                       "lab": {"mode": "root", "shaped": True, "shaping": "bulk", "queue_ms": 10.0,
                               "burst_bytes": [1], "congestion_control": "cubic", "mtu": [1500]}},
            "results": results, "wrong": 0}


def test_the_report_of_the_switch_bench(tmp_path, capsys):
    pytest.importorskip("matplotlib")
    document = switch_document()
    assert aggregation_report.publish_switch(document, None, tmp_path / "switch.png") == 0
    shown = capsys.readouterr().out
    assert "64M: the switch is faster with 4 nodes, 2.67 times with 4" in shown and "NOT" not in shown
    assert (tmp_path / "switch.png").stat().st_size > 1000
    document["wrong"] = 3
    assert aggregation_report.publish_switch(document, "-", None) == 1
    assert aggregation_report.switch_cells(document)[0][3] == "-"  # no limit of short ones


def test_runs_that_did_not_go_through_the_node_are_named():
    lines = aggregation_report.switch_sentences(switch_document(share=0.1))
    assert lines[-1].startswith("NOT THROUGH THE NODE") and "64M with 4 nodes" in lines[-1]


def test_the_table_has_a_line_a_run_and_size(capsys):
    document = {"config": {**switch_document()["config"], "nodes": 4, "rails": ["1gbit", "agg:1gbit"],
                           "operations": 1000, "seconds": 10.0},
                "results": [{"what": what, "wanted": 0.5, **cell(size, 10.0, 0.5)}
                            for what in ("1gbit alone", "1:1") for size in (8, 64 << 20)], "wrong": 0}
    assert [line[:3] for line in aggregation_report.table_cells(document)] == [
        ["8", "1gbit alone", "10"], ["8", "1:1", "10"],
        ["64M", "1gbit alone", "10"], ["64M", "1:1", "10"]]
    assert aggregation_report.publish_table(document, None) == 0
    shown = capsys.readouterr().out
    assert "at most 1000 operations" in shown and "NOT THROUGH" not in shown
    document["results"][-1]["node_share"] = 0.05
    sentences = aggregation_report.table_sentences(document)
    assert sentences == ["NOT THROUGH THE NODE, though asked for: 1:1 at 64M"]
