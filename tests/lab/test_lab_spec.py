"""Rates, names and layouts: the part of the lab that never touches the kernel."""

from __future__ import annotations

import pytest
from conftest import nezha_lab  # noqa: F401  (makes nezha importable from the source tree)

from nezha.lab import Lab, LabError, Node, Port, Rail, format_rate, parse_rate
from nezha_tools.lab import shaping
from nezha_tools.lab import _layout


@pytest.mark.parametrize("text, bps", [
    ("1gbit", 10**9), ("500mbit", 5 * 10**8), ("2.5Gbit", 25 * 10**8), ("100kbit", 10**5),
    ("1g", 10**9), ("none", 0), ("0", 0), (1e9, 10**9), (" 64kbit ", 64000)])
def test_rates_are_read(text: object, bps: int) -> None:
    assert parse_rate(text) == bps  # type: ignore[arg-type]


@pytest.mark.parametrize("text", ["", "fast", "1gib", "-1gbit", "1kbit", "99gbit", "1gbit;", "nan"])
def test_other_rates_are_refused_by_name(text: str) -> None:
    with pytest.raises(LabError, match="rate"):
        parse_rate(text)


@pytest.mark.parametrize("bps", [10**9, 5 * 10**8, 64000, 64001, 0, 25 * 10**8])
def test_rates_survive_printing(bps: int) -> None:
    assert parse_rate(format_rate(bps)) == bps


@pytest.mark.parametrize("arguments", [
    {"nodes": 0}, {"nodes": 251}, {"rails": []}, {"rails": ["1gbit"] * 65}, {"name": "../etc"},
    {"name": ""}, {"queue_ms": 0}, {"burst": 1}, {"mode": "magic"}, {"shaping": "rough"},
    {"nodes": [Node([Port(1)])], "rails": ["1gbit"]}])
def test_impossible_labs_are_refused_before_anything_is_made(arguments: dict) -> None:
    if arguments.get("name") == "":
        arguments = {"name": " "}
    with pytest.raises(LabError):
        Lab(**arguments)


def test_addresses_follow_the_plan() -> None:
    nodes = _layout.nodes("x", [Node([Port(0), Port(1)])] * 3, [Rail("1gbit"), Rail("1gbit")], 1500)
    assert [p.address for p in nodes[2].ports] == ["10.1.0.3/24", "10.2.0.3/24"]
    assert [p.device for p in nodes[2].ports] == ["eth0", "eth1"]
    assert nodes[2].ctl == "10.255.0.3"


def test_two_ports_on_one_rail_share_a_subnet_with_everybody() -> None:
    nodes = _layout.nodes("x", [Node([Port(0), Port(0)]), Node([Port(0)])], [Rail()], 1500)
    assert [p.address for p in nodes[0].ports] == ["10.1.0.1/16", "10.1.1.1/16"]
    assert nodes[1].ports[0].address == "10.1.0.2/16"


@pytest.mark.parametrize("ports", [
    [Port(0, device="ctl")], [Port(0, device="a" * 16)], [Port(0, device="x"), Port(0, device="x")],
    [Port(0, mtu=100)]])
def test_bad_ports_are_refused(ports: list) -> None:
    with pytest.raises(LabError):
        _layout.nodes("x", [Node(ports)], [Rail()], 1500)


@pytest.mark.parametrize("rate", [10**7, 10**8, 5 * 10**8, 10**9])
def test_up_to_a_gigabit_the_default_bucket_is_honest_from_256_kib(rate: int) -> None:
    assert shaping.honest_from(shaping.default_burst(rate, shaping.EXACT)) <= 256 << 10


@pytest.mark.parametrize("rate", [64000, 10**8, 10**9, 10**10])
@pytest.mark.parametrize("kind", shaping.KINDS)
def test_the_default_bucket_holds_a_segment_of_the_largest_size(rate: int, kind: str) -> None:
    segment = shaping.way(rate, kind).segment
    frames = -(-segment // 1448)
    assert shaping.default_burst(rate, kind) >= segment + frames * 66


def test_what_buckets_flatter() -> None:
    assert shaping.flattery(1000, 100 * 1514 // 1448) == pytest.approx(99 / 901, rel=0.02)
    assert shaping.flattery(0, 100) is None and shaping.flattery(50, 100) is None
    assert shaping.flattery(10**9, 0) == 0
