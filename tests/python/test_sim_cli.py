"""`nezha sim` as a command: tables, JSON, timelines, pictures, and one sentence for mistakes."""

import json

import pytest
from typer.testing import CliRunner

from nezha_study.sim.calibrate_command import app as calibrate_app
from nezha_study.sim.command import app
from nezha_study.sim import aggregation, paper
from nezha_study.sim.cluster import with_rails
from nezha_study.sim.operation import Question, simulate

RATES = ["--rates", "1Gbit/s:30us,500Mbit/s:50us"]


def run(*arguments):
    return CliRunner().invoke(app, list(arguments))


def answer(*arguments):
    done = run(*arguments)
    assert done.exit_code == 0, done.output
    return done.output


def test_a_sweep_has_a_row_for_every_question():
    asked = [*RATES, "-b", "64K", "-e", "1M"]
    document = json.loads(answer("collective", "--nodes", "4,8", *asked, "--json"))
    assert [(row["hosts"], row["size"]) for row in document["rows"]] == [
        (hosts, size) for hosts in (4, 8) for size in (1 << 16, 1 << 18, 1 << 20)]
    for row in document["rows"]:
        parts = row["parts_us"]
        assert parts["wire_us"] + parts["idle_us"] == pytest.approx(row["time_us"])
        assert sum(rail["share"] for rail in row["rails"]) == pytest.approx(1)
        assert row["known_as"] == "extrapolated"
    assert "the library's" in " ".join(document["assumptions"])
    table = answer("collective", "--nodes", "4", *asked)
    assert "ring" in table and "Assumed" in table


def test_a_folder_is_no_picture(tmp_path):
    done = run("collective", "--nodes", "4", *RATES, "-b", "1M", "-e", "1M", "--plot", str(tmp_path))
    assert done.exit_code == 1 and f"cannot write the plot {tmp_path}: it is a folder" in done.output
    assert not tmp_path.with_suffix(".png").exists()


def test_a_timeline_has_every_transfer(tmp_path):
    path = tmp_path / "timeline.json"
    answer("collective", "--nodes", "4", *RATES, "-b", "4M", "-e", "4M", "--algorithm", "ring",
           "--timeline", str(path))
    events = json.loads(path.read_text(encoding="utf-8"))["traceEvents"]
    sent = [event for event in events if event["ph"] == "X" and event["dur"] > 0]
    assert sum(event["args"]["bytes"] for event in sent) == pytest.approx(2 * 3 * (4 << 20))
    assert {event["pid"] for event in sent} == {0, 1, 2, 3} and {event["tid"] for event in sent} == {0, 1}
    starts, ends = ({event["id"]: event["ts"] for event in events if event["ph"] == kind}
                    for kind in ("s", "f"))
    assert starts.keys() == ends.keys() and all(starts[each] < ends[each] for each in starts)
    by_port = {}
    for event in sent:
        by_port.setdefault((event["pid"], event["tid"]), []).append((event["ts"], event["dur"]))
    for port in by_port.values():
        port.sort()
        assert all(begin + took <= after + 1e-6 for (begin, took), (after, _) in zip(port, port[1:]))


def test_a_picture_is_written(tmp_path):
    path = tmp_path / "picture.png"
    answer("collective", "--nodes", "4,16", *RATES, "-b", "64K", "-e", "1M", "--plot", str(path))
    assert path.read_bytes().startswith(b"\x89PNG")


def test_hosts_with_several_ranks_stand_beside_flat_algorithms(tmp_path):
    asked = ["--nodes", "4,8", *RATES, "-b", "64K", "-e", "4M", "-f", "64", "--ranks-per-host", "4"]
    picture = tmp_path / "hosts.png"
    document = json.loads(answer("collective", *asked, "--json"))
    assert [row["ranks"] for row in document["rows"]] == [16, 16, 32, 32]
    long = document["rows"][1]
    assert long["algorithm"] == "hierarchical" and long["flat"]["time_us"] > long["time_us"]
    assert "ranks of a host share its ports" in " ".join(document["assumptions"])
    assert long["rough"] and "wave by wave" in long["rough"]
    table = answer("collective", *asked, "--plot", str(picture))
    assert "times as fast" in table and "hierarchical" in table
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_scale_has_all_algorithms_and_says_what_the_library_refuses():
    document = json.loads(answer("scale", "--nodes", "6,20000", "--size", "64K", "--json"))
    assert len(document["rows"]) == 44 and all("time_us" in row for row in document["rows"])
    assert "16384" in " ".join(document["assumptions"])


def test_json_goes_to_a_file_whole(tmp_path):
    path = tmp_path / "answer.json"
    assert "known as" in answer("collective", "--nodes", "4", *RATES, f"--json={path}")
    assert json.loads(path.read_text(encoding="utf-8"))["collective"] == "all_reduce"


@pytest.mark.parametrize("arguments, words", [
    (["--nodes", "0", *RATES], "nodes 0"),
    (["--nodes", "x", *RATES], "nodes 'x'"),
    (["--nodes", "4", "--rates", "200:1us"], "unit"),
    (["--nodes", "4", "--rates", "1G"], "RATE:LATENCY"),
    (["--nodes", "4"], "--calibration"),
    (["nothing", "--nodes", "4", *RATES], "collective 'nothing'"),
    (["--nodes", "4", *RATES, "--algorithm", "bruck"], "bruck"),
    (["--nodes", "4", *RATES, "--root", "4"], "root 4"),
    (["--nodes", "4", *RATES, "--slow", "9:0.5"], "host 9"),
    (["--nodes", "4", *RATES, "--slow", "fast"], "HOST:FACTOR"),
    (["--nodes", "4", *RATES, "--change", "1:2@1ms"], "factor"),
    (["--nodes", "4", *RATES, "--change", "1:0"], "RAIL:FACTOR@TIME"),
    (["--nodes", "4", *RATES, "--vary", "1.5"], "vary 1.5"),
    (["--nodes", "4", *RATES, "--tree", "0:2"], "tree 0:2"),
    (["--nodes", "4", *RATES, "--gap", "3"], "gap '3'"),
    (["--nodes", "4", *RATES, "--ranks-per-host", "0"], "ranks-per-host '0'"),
    (["--nodes", "4", *RATES, "--ranks-per-host", "1,2"], "one number, or 4 of them"),
    (["--nodes", "4", *RATES, "--ranks-per-host", "2", "--inside", "3GB/s"], "inside '3GB/s'"),
    (["--nodes", "4", *RATES, "--ranks-per-host", "2", "--inside", "1G:1us,1G:1us"], "one RATE:LATENCY"),
    (["--nodes", "65", *RATES, "--timeline", "out/never.json"], "at most 64"),
    (["--nodes", "4", "--calibration", "no-such-file"], "no-such-file"),
])
def test_a_mistake_gets_one_sentence(arguments, words):
    done = run("collective", *arguments)
    assert done.exit_code == 2 and words in done.output
    assert done.output.count("\n") == 1 and done.output.startswith("nezha sim collective: ")


@pytest.mark.parametrize("arguments, words", [
    (["-b", "1M", "-e", "1M"], "maxbytes 1M: it must be above"),
    (["--nodes", "1"], "nodes 1: it must be 2 to 64"),
    (["--nodes", "2,65"], "nodes 2,65: it must be 2 to 64"),
    (["--nodes", "0"], "nodes 0"),
])
def test_calibrate_refuses_what_would_tell_nothing(arguments, words):
    done = CliRunner().invoke(calibrate_app, arguments)
    assert done.exit_code == 2 and words in done.output


@pytest.mark.parametrize("command, more", [
    ("balancer", ["--operations", "20"]), ("aggregation", ["--rail", "1", "--radix", "2"])])
def test_a_picture_beside_the_table(tmp_path, command, more):
    path = tmp_path / "picture.png"
    done = run(command, "--nodes", "2,4", *RATES, "-b", "1M", "-e", "4M", *more, "--plot", str(path))
    assert done.exit_code == 0, done.output
    assert path.read_bytes().startswith(b"\x89PNG") and f"plot: {path}" in done.output
    missing = run(command, "--nodes", "2", *RATES, "-b", "1M", "-e", "1M", *more, "--plot",
                  str(tmp_path / "nowhere" / "a.xyz"))
    assert missing.exit_code == 1 and "a.xyz" in missing.output


def test_the_papers_networks_are_as_fast_and_in_the_order_that_it_has():
    """Table I: 64 Mi and 1 Ki elements on 4 nodes. The order of text and table: RDMA, switches, TCP."""
    tcp, rdma, switches = (each.cluster(4) for each in paper.COMBINATIONS)
    nodes = paper.COMBINATIONS[2].nodes

    def alone(cluster, rail, size):
        return 1e6 * simulate(with_rails(cluster, [rail]), Question("all_reduce", size)).outcome.total_s

    long, short = 4 * (64 << 20), 4 << 10
    over_tcp, over_rdma = alone(tcp, 0, long), alone(rdma, 1, long)
    over_switches = 1e6 * aggregation.through_nodes(switches, nodes, long)
    assert over_rdma == pytest.approx(158_089, rel=0.02)
    assert over_switches == pytest.approx(181_484, rel=0.02)
    assert over_rdma < over_switches < over_tcp / 2
    assert 1e6 * aggregation.through_nodes(switches, nodes, short) == pytest.approx(9, rel=0.15)
    assert alone(rdma, 1, short) < alone(tcp, 0, short)


def test_the_papers_combinations_are_those_of_the_single_commands():
    sizes = ["-b", "1M", "-e", "1M"]
    found = json.loads(answer("paper", "--nodes", "4", *sizes, "--json"))["combinations"]
    assert [each["name"] for each in found] == ["TCP and TCP", "TCP and RDMA",
                                                "TCP and switches that add up"]
    rdma = json.loads(answer("balancer", "--nodes", "4", "--rates", "8.6G:60us,20.4G:17us",
                             "--advertised", "100G,128G", *sizes, "--json"))
    assert found[1]["rows"] == rdma["rows"]
    switches = json.loads(answer("aggregation", "--nodes", "4", "--rates", "8.6G:60us,11.8G:1.5us",
                                 "--rail", "1", "--radix", "40", "--adds", "1000GB/s", *sizes, "--json"))
    assert found[2]["rows"] == switches["rows"]
    assert "TCP and RDMA, 8.6G:60us" in answer("paper", "--nodes", "4", *sizes)
