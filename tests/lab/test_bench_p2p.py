"""`nezha bench p2p` on real wires: a slow port is found, and every rail is measured alone. Rates are
low, so that the wires and not this machine's processors are the limit."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any, Dict

import pytest
from conftest import child_env

import nezha.lab

pytestmark = pytest.mark.usefixtures("namespaces")
CODE = "import sys; sys.argv[0] = 'nezha'; from nezha_tools.main import main; sys.exit(main())"


def nezha_command(*arguments: str) -> Dict[str, Any]:
    """The JSON that `nezha ...` prints, alone or behind "[0] "."""
    done = subprocess.run([sys.executable, "-c", CODE, *arguments], env=child_env(), text=True,
                          capture_output=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads("\n".join(line.removeprefix("[0] ") for line in done.stdout.splitlines()))


def test_every_rail_alone_in_a_lab() -> None:
    found = nezha_command("bench", "p2p", "--nodes", "3", "--rates", "100mbit,20mbit", "--size", "128K",
                          "--seconds", "0.05", "--json", "-")
    assert found["wrong"] == 0 and len(found["rails"]) == 2
    for rail, device, rate in zip(found["rails"], ("eth0", "eth1"), (0.1, 0.02)):
        assert [port["device"] for port in rail["ports"]] == [device] * 3
        assert [port["host"] for port in rail["ports"]] == ["node 0", "node 1", "node 2"]
        for sender in range(3):
            for receiver in range(3):
                if sender == receiver:
                    assert rail["one_way_gbps"][sender][sender] > 0.1  # memory
                    continue
                # A busy machine is late; nothing is faster than its wires and a bucket.
                assert 0 < rail["one_way_gbps"][sender][receiver] < 1.5 * rate
                assert 0 < rail["both_ways_gbps"][sender][receiver] < 3 * rate
                assert rail["latency_us"][sender][receiver] > 0
                assert rail["of_advertised"][sender][receiver] == pytest.approx(
                    rail["one_way_gbps"][sender][receiver] / rate)


def test_a_slow_port_is_named() -> None:
    with nezha.lab.Lab(nodes=3, rails=["100mbit"]) as lab:
        lab.slow(2, 0, "4mbit")
        found = nezha_command("run", "--lab", lab.name, sys.executable, "-c", CODE, "bench", "p2p",
                              "--size", "64K", "--seconds", "0.05", "--json", "-")
    (rail,) = found["rails"]
    slow = {(cell["from"], cell["to"]) for cell in rail["slow"] if cell["what"] == "one_way_gbps"}
    assert {(2, 0), (2, 1)} <= slow and found["wrong"] == 0
    assert any("eth0 of node 2 (rank 2), rate one way" in line and "SLOW PORT" in line
               for line in rail["sentences"]), rail["sentences"]
