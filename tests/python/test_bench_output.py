"""What the bench hands out: table, JSON, picture, counters and errors."""

import json

import pytest

from nezha_tools.bench import collective_report
from nezha_tools.bench.counters import transmitted_bytes
from nezha_tools.cli.errors import BenchError
from nezha_tools.bench.libraries.settings import parse_peers
from nezha_tools.bench.collective_run import Report
from nezha_tools.bench.spec import Sample
from nezha_tools.cli.console import OutputError

ROW = {
    "size": 1 << 20, "count": 1 << 18, "type": "float32", "redop": "sum", "time_us": 13212.0,
    "p50_us": 13212.0, "p99_us": 14000.0, "algbw_gbps": 0.635, "busbw_gbps": 0.952,
    "limit_us": 12582.9, "of_limit": 0.952, "wrong": 0, "cpu_s_per_gb": 4.1,
    "rails": [{"name": "eth0", "transport": "tcp", "rate_gbps": 1.0, "bytes": 6 << 20, "share": 1.0}],
    "library": "nezha",
}
LAB = {"mode": "root", "shaped": True, "congestion_control": "cubic", "queue_ms": 10.0,
       "shaping": "bulk", "burst_bytes": [20000], "mtu": [1500]}


def _report(**changes):
    config = {"collective": "all_reduce", "ranks": 4, "rails": ["1gbit"], "one_rail": None,
              "type": "float32", "redop": "sum", "in_place": True, "launches": 1, "options": {},
              "lab": LAB}
    wire = {"agree": True, "overhead": 0.05, "disagreements": []}
    rows = [{**ROW, **changes}, {**ROW, "size": 4 << 20}]
    return Report({"config": config, "rows": rows, "wire_check": wire}, [1.9, None])


def test_the_table_has_comments_columns_and_verdicts(capsys):
    assert collective_report.publish(_report(), None, None) == 0
    lines = capsys.readouterr().out.splitlines()
    text = "\n".join(lines)
    for fact in ("cubic", "queue 10.0 ms", "burst 20000", "mtu 1500",
                 "# Out of bounds values : 0 OK", "# Avg bus bandwidth    : 0.1190 GB/s"):
        assert fact in text
    heading = next(line for line in lines if "busbw" in line and "#wrong" in line)
    data = [line for line in lines if not line.startswith("#")]
    assert len(data) == 2
    columns = dict(zip(heading.lstrip("# ").split(), data[0].split()))
    units = lines[lines.index(heading) + 1].split()
    assert units[1:6] == ["(B)", "(elements)", "(us)", "(GB/s)", "(GB/s)"]
    assert (columns["algbw"], columns["busbw"]) == ("0.0794", "0.1190")  # 0.635 and 0.952 Gbit/s
    assert columns["size"] == "1048576" and columns["of_limit"] == "95.2"
    assert columns["gain"] == "1.90" and columns["rails"] == "eth0:100.0%"


def test_wrong_elements_fail_the_run(capsys):
    assert collective_report.publish(_report(wrong=3), None, None) == 1
    assert "# Out of bounds values : 3 FAILED" in capsys.readouterr().out


def test_disagreeing_counters_are_named():
    wire = {"agree": False, "overhead": 0.5, "disagreements": ["eth0: so and so"]}
    assert any("so and so" in line for line in collective_report.footer_lines([ROW], wire))


def test_json_alone_is_on_standard_output(capsys):
    collective_report.publish(_report(limit_us=None, of_limit=None), "-", None)
    document = json.loads(capsys.readouterr().out)
    assert document["rows"][0]["limit_us"] is None
    assert document["config"]["lab"]["congestion_control"] == "cubic"


def test_files_are_written_where_asked(tmp_path, capsys):
    pytest.importorskip("matplotlib")
    collective_report.publish(_report(), str(tmp_path / "new" / "a.json"), tmp_path / "new" / "a.png")
    assert json.loads((tmp_path / "new" / "a.json").read_text())["rows"]
    assert (tmp_path / "new" / "a.png").read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"


def test_a_place_that_cannot_be_written_is_one_sentence(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(OutputError, match="cannot write"):
        collective_report.publish(_report(), str(tmp_path / "file" / "a.json"), None)


def test_curves_are_named_for_the_legend():
    report = _report()
    report.document["peers"] = {"gloo": {"rows": []}}
    report.document["singles"] = {"eth0": {"rows": []}}
    assert list(report.curves()) == ["Nezha, 1gbit", "Nezha, eth0 only", "gloo"]


def test_only_marked_lines_are_samples():
    sample = '{"size": 4, "count": 1, "ranks": 2, "times_us": [1.5], "mean_us": 1.5, "wrong": 0, ' \
             '"cpu_s": 0.1}'
    lines = [b"[info] hello", b"@sample " + sample.encode(), b"@sampler"]
    assert [entry.times_us for entry in Sample.parse(lines)] == [[1.5]]


def test_interface_counters_are_read_per_device(tmp_path):
    path = tmp_path / "dev"
    path.write_text(
        "Inter-|   Receive    |  Transmit\n face |bytes packets errs drop fifo frame compressed "
        "multicast|bytes packets errs drop fifo colls carrier compressed\n"
        "    lo: 10 1 0 0 0 0 0 0 20 1 0 0 0 0 0 0\n"
        "  eth0:1234 9 0 0 0 0 0 0 5678 9 0 0 0 0 0 0\n")
    assert transmitted_bytes(path) == {"lo": 20, "eth0": 5678}
    assert transmitted_bytes(tmp_path / "nothing") == {}


def test_unknown_peers_are_refused():
    assert parse_peers("gloo-default, mpich-default, openmpi-ring") == ["gloo", "mpich", "openmpi-ring"]
    with pytest.raises(BenchError, match="nccl"):
        parse_peers("nccl")
