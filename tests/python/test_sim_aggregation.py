"""Aggregation nodes in `nezha sim`: closed forms, figures that were measured, the shipped choice, the
command."""

import json
import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from nezha_tools.cli.sizes import parse_size
from nezha_study.sim.command import app
from nezha_tools.cli.errors import PlanError
from nezha_study.plan.library import ask
from nezha_study.sim import aggregation, cluster
from nezha_study.sim.aggregation import CHUNK_BYTES, Nodes, choose, through_nodes
from nezha_study.sim.cluster import FRAME_BYTES
from nezha_study.sim.operation import Question

RATE, LATENCY, ADDS = 1e9, 10e-6, 4e9
ONE = [(RATE, LATENCY)]
PAYLOAD = 1448 / 1514  # of a frame, which a lab's rates count with its headers


def nodes(radix=16, rail=0, port=None, adds=ADDS):
    return Nodes(radix, rail, port, adds)


def run(*arguments):
    return CliRunner().invoke(app, ["aggregation", *arguments])


@pytest.mark.parametrize("hosts, levels", [(4, 1), (16, 1), (17, 2), (256, 2), (300, 3)])
def test_levels_hold_all_hosts(hosts, levels):
    assert len(nodes().levels(hosts)) == levels


@pytest.mark.parametrize("hosts, levels", [(4, 1), (16, 2), (64, 3)])
def test_one_chunk_takes_the_closed_form(hosts, levels):
    size = 64 * 1024
    carried = size + FRAME_BYTES
    took = through_nodes(cluster.uniform(hosts, ONE), nodes(radix=4), size)
    assert took == pytest.approx(2 * levels * (LATENCY + carried / RATE) + levels * 4 * carried / ADDS)


def test_many_chunks_follow_each_other_at_the_slowest_speed():
    chunks, carried = 12, CHUNK_BYTES + FRAME_BYTES
    one = through_nodes(cluster.uniform(4, ONE), nodes(), CHUNK_BYTES)
    for adds, step in ((1e12, carried / RATE), (2e9, 4 * carried / 2e9)):
        first = one + 4 * carried * (1 / adds - 1 / ADDS)
        took = through_nodes(cluster.uniform(4, ONE), nodes(adds=adds), chunks * CHUNK_BYTES)
        assert took == pytest.approx(first + (chunks - 1) * step)


def test_a_narrow_port_is_the_limit():
    wide = through_nodes(cluster.uniform(8, ONE), nodes(adds=1e12), 16 << 20)
    narrow = through_nodes(cluster.uniform(8, ONE), nodes(port=4 * RATE, adds=1e12), 16 << 20)
    assert narrow / wide == pytest.approx(2, rel=0.05)


def test_what_is_under_way_is_bounded():
    far = cluster.uniform(4, [(RATE, 50e-3)])
    size = 4 * aggregation.WINDOW_BYTES
    # Four windows, each of which waits for the way there and back of the one before.
    assert 8 * 50e-3 < through_nodes(far, nodes(), size) < 8 * 50e-3 + 2 * size / RATE


def figures():
    """Rows of the table that bench/figures.py writes: rail, hosts, size, milliseconds through a node."""
    text = (Path(__file__).parents[2] / "docs" / "aggregation.md").read_text(encoding="utf-8")
    table = text.split("<!-- figures: switch -->")[1].split("<!-- end of figures -->")[0]
    for line in table.splitlines():
        row = re.match(r"\| agg:(\d+)([mg])bit(, tree 2x3)? \| (\d+) \| (\d+ MB) \|[^|]*\|[^|]*\| "
                       r"([\d.]+) ms", line)
        if row:
            rate = int(row[1]) * (1e6 if row[2] == "m" else 1e9) / 8
            size = parse_size(row[5].replace(" MB", "M"))
            yield rate * PAYLOAD, int(row[4]), size, float(row[6]), row[3]


def test_the_published_figures_are_met():
    rows = list(figures())
    assert len(rows) >= 8
    for rate, hosts, size, measured_ms, tree in rows:
        # Nodes of a lab have ports that are not shaped.
        made = nodes(radix=3 if tree else 16, port=10e9)
        took = through_nodes(cluster.uniform(hosts, [(rate, 30e-6)]), made, size)
        assert 1e3 * took == pytest.approx(measured_ms, rel=0.05), (rate, hosts, size, tree)


def test_one_rail_is_never_cut_and_two_are_where_that_pays():
    alone = choose(cluster.uniform(4, ONE), nodes(), Question("all_reduce", 8 << 20))
    assert alone.way == "node"
    both = choose(cluster.uniform(4, ONE * 2), nodes(rail=1), Question("all_reduce", 8 << 20))
    # 1.5 S / B over a ring beside S / B through the node: 60 % make both parts as long.
    assert both.way == "both" and both.share == pytest.approx(0.6, abs=0.03) and both.operations < 20
    slow = choose(cluster.uniform(4, ONE), nodes(adds=1e8), Question("all_reduce", 8 << 20))
    assert slow.way == "hosts"


def test_the_command_prints_a_row_for_every_question():
    asked = ["--rates", "1G:30us,1G:30us", "--rail", "1", "-b", "1M", "-e", "4M"]
    document = json.loads(run("--nodes", "4,20", *asked, "--json").output)
    assert [(row["hosts"], row["size"], row["levels"]) for row in document["rows"]] == [
        (4, 1 << 20, 1), (4, 4 << 20, 1), (20, 1 << 20, 2), (20, 4 << 20, 2)]
    for row in document["rows"]:
        assert row["time_us"] <= 1.05 * min(row["hosts_us"], row["nodes_us"])
    table = run("--nodes", "4", *asked).output
    assert "through nodes" in table and "both" in table and "Assumed" in table


@pytest.mark.parametrize("arguments, words", [
    (["--rail", "1"], "rail 1: it must be a whole number from 0 to 0"),
    (["--radix", "1"], "radix 1: it must be a whole number from 2 to 4096"),
    (["--port", "10"], "with its unit"),
    (["--adds", "-4GB/s"], "adds"),
    (["--nodes", "1"], "nodes 1: it must be 2 or more"),
])
def test_mistakes_get_one_sentence(arguments, words):
    done = run("--nodes", "4", "--rates", "1G:30us", *arguments)
    assert done.exit_code == 2 and words in done.output and done.output.count("\n") == 1, done.output


@pytest.mark.parametrize("request_, words", [
    ({"bytes": 0}, "bytes must be 1 or more"),
    ({"bytes": 8, "operations": [{"hosts_us": -1, "node_us": 0}]}, "hosts_us and node_us"),
])
def test_the_library_refuses_times_that_are_none(request_, words):
    with pytest.raises(PlanError, match=words):
        ask("cut", request_)
