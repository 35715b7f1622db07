"""`nezha bench p2p`: what matrices say, messages between pairs, what is refused, and the report."""

import json

import numpy as np
import pytest

from nezha_tools.bench import p2p_matrix, p2p_report
from nezha_tools.bench.p2p_matrix import of_rate, ports_in_common, sentences, slow_cells, usual
from nezha_tools.bench.p2p_run import Request, document, run_in_lab
from nezha_tools.bench.p2p_spec import P2pSpec, Port, RailMatrix
from nezha_tools.bench.p2p_worker import _Pair, measure
from nezha_tools.cli.errors import BenchError


def matrix(ranks, value=100.0, **cells):
    """All cells `value` but the named ones: c01=5 is from rank 0 to rank 1."""
    found = [[0.0 if a == b else value for b in range(ranks)] for a in range(ranks)]
    for name, other in cells.items():
        found[int(name[1])][int(name[2])] = other
    return found


def port_slow_both_ways(ranks, slow, value=10.0):
    return matrix(ranks, **{f"c{a}{b}": value for a in range(ranks) for b in range(ranks)
                            if a != b and slow in (a, b)})


def ports(ranks, rate=125.0):
    return [Port(f"node {rank}", "eth0", rate) for rank in range(ranks)]


def cells_of(found):
    return [(cell.sender, cell.receiver) for cell in found]


# ---- what matrices say

@pytest.mark.parametrize("ranks", [3, 4, 5, 8])
def test_a_slow_port_is_found_whatever_the_number_of_hosts(ranks):
    rates = port_slow_both_ways(ranks, 1)
    slow = slow_cells(rates, range(ranks))
    assert set(cells_of(slow)) == {(a, b) for a in range(ranks) for b in range(ranks)
                                   if a != b and 1 in (a, b)}
    assert {cell.usual for cell in slow} == {100.0}
    assert ports_in_common(slow, range(ranks)) == ([1], [1])


def test_half_of_the_usual_rate_is_not_slow_and_less_is():
    assert slow_cells(matrix(4, c01=50.0), range(4)) == []
    assert cells_of(slow_cells(matrix(4, c01=49.9), range(4))) == [(0, 1)]


def test_a_latency_is_slow_where_it_is_long():
    times = matrix(4, value=10.0, c23=20.1, c01=1.0)
    assert cells_of(slow_cells(times, range(4), is_time=True)) == [(2, 3)]


def test_the_usual_value_of_two_ranks_is_their_best():
    assert usual(matrix(2, c01=10.0), [(0, 1), (1, 0)], is_time=False) == 100.0
    assert usual(matrix(2, c01=10.0), [(0, 1), (1, 0)], is_time=True) == 10.0


def test_ranks_of_one_host_are_compared_with_each_other_only():
    """Two ranks on each of two hosts: what stays on a host is fifty times quicker than what leaves it."""
    hosts = [0, 0, 1, 1]
    rates = [[0.0 if a == b else 5000.0 if hosts[a] == hosts[b] else 100.0 for b in range(4)]
             for a in range(4)]
    assert slow_cells(rates, hosts) == []
    assert of_rate(rates, ports(4), hosts)[0] == [None, None, 0.8, 0.8]


def test_parts_are_of_the_slower_port():
    ends = [Port("a", "eth0", 100.0), Port("b", "eth0", 400.0), Port("c", "eth0", None)]
    found = of_rate(matrix(3, value=50.0), ends, range(3))
    assert found[0][1] == found[1][0] == 0.5 and found[0][2] is None and found[0][0] is None
    assert of_rate(matrix(3, value=50.0), ends, range(3), directions=2)[0][1] == 0.25


def said(rates, hosts=None, **more):
    hosts = range(len(rates)) if hosts is None else hosts
    return sentences(slow_cells(rates, hosts), ports(len(rates)), hosts, "rate one way",
                     lambda value: f"{value:g} B/s", **more)


def test_the_port_of_the_host_is_named():
    assert said(port_slow_both_ways(4, 2)) == [
        "SLOW PORT: eth0 of node 2 (rank 2), rate one way: in both directions it has 10 B/s to 10 B/s "
        "with every other host; 100 B/s is usual."]
    (line,) = said(matrix(4, c20=10, c21=20, c23=30), is_symmetric=False)
    assert "node 2 (rank 2)" in line and "where it sends it has 10 B/s to 30 B/s" in line
    (line,) = said(matrix(4, c02=10, c12=10, c32=10), is_symmetric=False)
    assert "where it receives" in line


def test_a_pair_whose_ports_are_quick_with_others_is_named_as_a_pair():
    (line,) = said(matrix(4, c31=10), is_symmetric=False)
    assert line.startswith("SLOW PAIR: eth0 of node 3 (rank 3) to eth0 of node 1 (rank 1)")
    assert "look at the way between them" in line
    assert len(said(matrix(4, c31=10, c13=10), is_symmetric=True)) == 1
    (line,) = said(matrix(2, c01=10), is_symmetric=False)
    assert "it does not follow which one's port is slow" in line
    (line,) = said(matrix(3, c01=10), hosts=[0, 0, 0], is_symmetric=False)
    assert "processors and memory are in question" in line
    assert said(matrix(4)) == []


def test_rates_become_gbits_with_the_copies_in_the_diagonal():
    assert p2p_matrix.gbps_matrix([[0, 1e9], [2e9, 0]], [5e9, 6e9]) == pytest.approx(
        np.array([[40, 8], [16, 48]]))


# ---- messages

def test_every_cell_is_measured_and_every_byte_checked(world):
    spec = P2pSpec(3, 10_000, 0.001)
    found = world(3, lambda comm: measure(comm, spec), config={"rails": "lo", "shm": "off"})
    for each in found:
        assert each.wrong == 0 and each.rail == 3 and len(each.copy) == 3 and min(each.copy) > 0
        assert each.one_way == found[0].one_way
        for values in (each.one_way, each.both_ways, each.latency):
            assert all((values[a][b] > 0) == (a != b) for a in range(3) for b in range(3))
        assert each.both_ways == np.array(each.both_ways).T.tolist()
        assert [port.device for port in each.ports] == [found[0].ports[0].device] * 3
    assert RailMatrix.parse([f"@p2p {json.dumps(found[0], default=vars)}".encode()]) == [found[0]]


def test_a_changed_byte_is_counted(world):
    def body(comm):
        pair = _Pair(comm, 1 - comm.rank, 1000)
        if comm.rank == 0:
            pair._pattern[500] += 1  # of which every message of these few has one
        pair._stream(3, comm.rank == 0, comm.rank == 1)
        return pair.wrong

    assert world(2, body) == [0, 3]


def test_several_rails_in_a_run_of_one_are_refused(world):
    class Two:
        world_size, rank = 1, 0
        barrier = stats = all_reduce = lambda *_, **__: {"host_of": [0]}
        rails = staticmethod(lambda: [{"name": "eth0", "device": "eth0"}, {"name": "eth1"}])

    from nezha_tools.bench.p2p_worker import _ports
    with pytest.raises(BenchError, match=r"rail 0 alone: this rank has 2 rails \(eth0, eth1\)"):
        _ports(Two(), P2pSpec(0, 8, 0.1))


# ---- refusals and the report

@pytest.mark.parametrize("size", [0, 2 << 30])
def test_sizes_that_are_no_message_are_refused(size):
    with pytest.raises(BenchError, match="a message has 1 byte to 1G"):
        Request(size)


def test_an_aggregation_node_is_no_rail_of_messages():
    with pytest.raises(BenchError, match="aggregation nodes carry no messages"):
        run_in_lab(Request(rails=["1gbit", "agg:1gbit"]), None)


def found_document(wrong=0):
    rates, both = port_slow_both_ways(4, 2, 10e6), port_slow_both_ways(4, 2, 20e6)
    for each in (rates, both):
        for row in each:
            row[:] = [value * 1e6 if value == 100 else value for value in row]
    latency = matrix(4, value=50e-6, c01=120e-6, c10=120e-6)
    rail = RailMatrix(0, ports(4, 125e6), [0, 1, 2, 3], rates, both, latency, [5e9] * 4, wrong)
    return document(Request(rails=["1gbit"]), [rail], None)


def test_the_document():
    (rail,) = found_document()["rails"]
    assert rail["one_way_gbps"][0] == pytest.approx([40, 0.8, 0.08, 0.8])
    assert rail["of_advertised"][0] == [None, 0.8, pytest.approx(0.08), 0.8]
    assert rail["of_advertised_both_ways"][0][1] == 0.4
    assert rail["latency_us"][0] == [None, pytest.approx(120), pytest.approx(50), pytest.approx(50)]
    assert rail["ports"][2] == {"rank": 2, "host": "node 2", "host_number": 2, "device": "eth0",
                                "advertised_gbps": 1.0}
    slow = {(cell["what"], cell["from"], cell["to"]): cell for cell in rail["slow"]}
    assert slow["one_way_gbps", 0, 2]["value"] == pytest.approx(0.08)
    assert slow["one_way_gbps", 0, 2]["usual"] == pytest.approx(0.8)
    assert ("latency_us", 0, 1) in slow and ("one_way_gbps", 0, 1) not in slow
    port, pair = rail["sentences"]  # the rate both ways follows from the rate one way
    assert "SLOW PORT: eth0 of node 2 (rank 2), rate one way" in port
    assert "SLOW PAIR: eth0 of node 0 (rank 0) and eth0 of node 1 (rank 1), latency: 120.0 us" in pair


def test_the_report(capsys):
    assert p2p_report.publish(found_document(), None, None) == 0
    shown = capsys.readouterr().out
    assert "rail 0, one way (Gbit/s)" in shown and "0.080 8% !" in shown and "0.800 80%" in shown
    assert "SLOW PORT: eth0 of node 2" in shown and "Wrong bytes: 0 OK" in shown
    assert p2p_report.publish(found_document(wrong=3), "-", None) == 1
    assert json.loads(capsys.readouterr().out)["wrong"] == 3


def test_the_picture_is_written(tmp_path):
    pytest.importorskip("matplotlib")
    p2p_report.plot(found_document(), tmp_path / "p2p.png")
    assert (tmp_path / "p2p.png").stat().st_size > 10_000
