"""`nezha calibrate --pairs`: rates of ports out of the matrices of `nezha bench p2p`."""

from __future__ import annotations

import json

import numpy as np
import pytest

from nezha_study.sim import calibration
from nezha_study.sim.pairs import read_pairs
from nezha_tools.cli.errors import PlanError
from test_sim_calibration import FACTS, measured


def rail(rates, host_of):
    return {"one_way_gbps": rates,
            "ports": [{"host": f"h{host}", "host_number": host, "device": "eth0"} for host in host_of]}


def alike(host_of, rate=1.0):
    return [[rate for _ in host_of] for _ in host_of]


def written(tmp_path, *rails):
    path = tmp_path / "p2p.json"
    path.write_text(json.dumps({"rails": list(rails)}))
    return path


def test_a_slow_port_is_slow_with_all_others(tmp_path):
    hosts = [0, 1, 2, 3]
    slow = alike(hosts)
    for other in (0, 1, 3):
        slow[2][other] = 0.25  # it sends slowly, and receives as the others do
    slow[0][1] = 0.95  # noise
    found = read_pairs(written(tmp_path, rail(alike(hosts), hosts), rail(slow, hosts)))
    assert found.parts == [[1, 1], [1, 1], [1, pytest.approx(0.25)], [1, 1]] and found.slow == []
    found.check(4, 2)
    with pytest.raises(PlanError, match="4 hosts with 2 rails, and 3 hosts with 2 rails are calibrated"):
        found.check(3, 2)


def test_a_slow_way_between_fast_ports_is_named(tmp_path):
    hosts = [0, 1, 2, 3]
    rates = alike(hosts)
    rates[0][3] = 0.2
    found = read_pairs(written(tmp_path, rail(rates, hosts)))
    assert found.parts == [[1.0]] * 4
    assert found.slow == ["eth0 of h0 to eth0 of h3: 0.2 Gbit/s, where both ports reach 1; the "
                          "simulation has no rates of single pairs"]


def test_ranks_of_a_host_share_its_port(tmp_path):
    host_of = [0, 0, 1, 1, 2, 2]
    rates = [[50.0 if host_of[a] == host_of[b] else 0.5 if 1 in (host_of[a], host_of[b]) else 1.0
              for b in range(6)] for a in range(6)]
    assert read_pairs(written(tmp_path, rail(rates, host_of))).parts == [[1.0], [0.5], [1.0]]


@pytest.mark.parametrize("content, words", [
    ([], "no file of nezha bench p2p"), ({"rails": []}, "no file of nezha bench p2p"),
    ({"rails": [{"one_way_gbps": [[0]]}]}, "no file of nezha bench p2p"),
    ({"rails": [rail([[0, 1]], [0, 1])]}, "no file of nezha bench p2p"),
    ({"rails": [rail(alike([0, 0]), [0, 0])]}, "its ranks share a host")])
def test_other_files_are_refused(tmp_path, content, words):
    path = tmp_path / "p2p.json"
    path.write_text(json.dumps(content))
    with pytest.raises(PlanError, match=words):
        read_pairs(path)


def test_the_calibration_keeps_rates_of_ports(tmp_path):
    parts = [[1.0, 1.0], [1.0, 0.5], [1.0, 1.0]]
    found = calibration.calibrate(FACTS, measured(), ports=parts)
    path = tmp_path / "calibration.json"
    path.write_text(json.dumps(calibration.document(found)))
    again = calibration.read(path)
    first, second = (cost.rate for cost in again.costs)
    # The fitted rate is the slowest port's.
    assert again.cluster(3).rate == pytest.approx(np.array([[first, 2 * second], [first, second],
                                                            [first, 2 * second]]))
    assert again.cluster(4).rate.shape == (1, 2)
    assert calibration.read(path).cluster(3).slowest([0, 1])[1][0] == pytest.approx(second)
