"""The switch chip model: against its closed forms, an event simulation, and what was published."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np
import pytest
import simpy

from nezha_tools.cli.errors import PlanError
from nezha_study.sim.switch import hosts, switch_study
from nezha_study.sim.switch.chip import Chip, all_reduce_us

PUBLISHED = switch_study._data("published")


class Events:
    """The same model as events of SimPy: every packet, wire and adder by itself."""

    def __init__(self, chip, nodes, size, starts):
        self.chip, self.env, self.size = chip, simpy.Environment(), size
        self.packets = -(-size // chip.packet_bytes)
        self.layers = [nodes]
        while len(self.layers) <= chip.levels(nodes):
            self.layers.append(-(-self.layers[-1] // chip.radix))
        self.here = {}  # (level, switch, packet) -> children that have arrived
        self.adders, self.wires = {}, {}
        self.windows = [simpy.Container(self.env, init=chip.slots) for _ in range(nodes)]
        self.finished = []
        for host in range(nodes):
            self.env.process(self.host(host, starts[host]))
        self.env.run()

    def bytes(self, packet):
        return min(self.chip.packet_bytes, self.size - packet * self.chip.packet_bytes)

    def host(self, host, start):
        yield self.env.timeout(start + self.chip.host_us)
        for packet in range(self.packets):
            yield self.windows[host].get(1)
            yield self.env.timeout(self.bytes(packet) / self.chip.rate)
            self.env.process(self.arrives(1, host, packet))

    def arrives(self, level, child, packet):
        yield self.env.timeout(self.chip.wire_us)
        switch = child // self.chip.radix
        key = (level, switch, packet)
        self.here[key] = self.here.get(key, 0) + 1
        children = min(self.chip.radix, self.layers[level - 1] - switch * self.chip.radix)
        if self.here[key] == children:
            yield from self.one_by_one(self.adders, (level, switch), self.chip.add_us)
            yield self.env.timeout(self.chip.switch_us)
            if level + 1 < len(self.layers):
                yield from self.one_by_one(self.wires, ("up", level, switch),
                                           self.bytes(packet) / self.chip.rate)
                self.env.process(self.arrives(level + 1, switch, packet))
            else:
                self.env.process(self.down(level, switch, packet))

    def down(self, level, switch, packet):
        yield from self.one_by_one(self.wires, ("down", level, switch),
                                   self.bytes(packet) / self.chip.rate)
        yield self.env.timeout(self.chip.wire_us)
        first = switch * self.chip.radix
        for child in range(first, min(first + self.chip.radix, self.layers[level - 1])):
            if level == 1:
                self.windows[child].put(1)
                self.finished.append((packet, self.env.now))
            else:
                self.env.process(self.next_down(level - 1, child, packet))

    def next_down(self, level, switch, packet):
        yield self.env.timeout(self.chip.switch_us)
        yield from self.down(level, switch, packet)

    def one_by_one(self, what, key, time):
        resource = what.setdefault(key, simpy.Resource(self.env))
        with resource.request() as turn:
            yield turn
            yield self.env.timeout(time)

    @property
    def last_us(self):
        return max(time for _, time in self.finished) + self.chip.host_us


@pytest.mark.parametrize("seed", range(25))
def test_the_vectors_are_what_the_events_are(seed):
    rng = np.random.default_rng(seed)
    chip = Chip(radix=int(rng.integers(2, 6)), host_us=float(rng.random()), wire_us=float(rng.random()),
                switch_us=float(rng.random()), add_us=float(rng.random() * 2),
                rate=float(rng.integers(50, 1000)), packet_bytes=int(rng.integers(8, 600)),
                slots=int(rng.integers(1, 9)))
    nodes, size = int(rng.integers(2, 24)), int(rng.integers(1, 12 * chip.packet_bytes))
    starts = rng.random(nodes) * float(rng.choice([0.0, 5.0, 50.0]))
    events = Events(chip, nodes, size, starts)
    assert len(events.finished) == nodes * events.packets
    assert all_reduce_us(chip, nodes, size, starts) == pytest.approx(events.last_us)


def block_us(chip, nodes, size):
    """The closed form of one packet when all hosts begin together."""
    levels = chip.levels(nodes)
    return (2 * chip.host_us + 2 * levels * (chip.wire_us + size / chip.rate)
            + (2 * levels - 1) * chip.switch_us + levels * chip.add_us)


def burst_us(chip, nodes, packets):
    """The closed form of so many full packets, as long as the slots do not run out."""
    slowest = max(chip.packet_bytes / chip.rate, chip.add_us)
    return block_us(chip, nodes, chip.packet_bytes) + (packets - 1) * slowest


@pytest.mark.parametrize("nodes, radix", list(product([2, 3, 16, 17, 128, 4096], [2, 8, 16, 64])))
def test_the_closed_forms(nodes, radix):
    chip = Chip(radix=radix, slots=1000)
    assert all_reduce_us(chip, nodes, 8) == pytest.approx(block_us(chip, nodes, 8))
    for packets in (1, 2, 9):
        assert all_reduce_us(chip, nodes, packets * 1024) == pytest.approx(
            burst_us(chip, nodes, packets))


def test_the_adder_bounds_a_burst_where_it_is_slower_than_the_wire():
    chip = Chip(add_us=3.0)
    assert all_reduce_us(chip, 16, 40 << 10) == pytest.approx(burst_us(chip, 16, 40))
    assert burst_us(chip, 16, 40) > 40 * 3.0


@pytest.mark.parametrize("slots", [1, 2, 5])
def test_slots_bound_the_rate(slots):
    chip = Chip(slots=slots, packet_bytes=256)
    there_and_back = all_reduce_us(chip, 64, 256) - 2 * chip.host_us
    size = 256 * 200
    rate = size / all_reduce_us(chip, 64, size)
    assert rate <= slots * 256 / there_and_back * (1 + 1e-9)
    assert rate == pytest.approx(slots * 256 / there_and_back, rel=0.05)
    assert all_reduce_us(replace(chip, slots=1000), 64, size) < all_reduce_us(chip, 64, size)


def test_the_wire_is_never_beaten_and_long_messages_do_not_see_the_nodes():
    chip = Chip()
    times = [all_reduce_us(chip, nodes, 1 << 20) for nodes in (2, 16, 256)]
    assert all(time >= (1 << 20) / chip.rate for time in times)
    assert times[-1] / times[0] < 1.01
    ring = hosts.ring_us(16, 1 << 30, 0.0, chip.rate)
    assert ring == pytest.approx(2 * 15 / 16 * (1 << 30) / chip.rate)


@pytest.mark.parametrize("radix, a_level", [(8, 0.33), (16, 0.5), (32, 0.5), (40, 0.5), (64, 1.0)])
def test_growth_follows_the_cost_of_a_level(radix, a_level):
    """From 2 to 4096 nodes: below 2 us while a level costs less than this each way."""
    def growth(cost):
        chip = Chip(radix=radix, wire_us=0.0, switch_us=cost, add_us=0.0, rate=1e9)
        return all_reduce_us(chip, 4096, 8) - all_reduce_us(chip, 2, 8)

    assert growth(0.98 * a_level) < 2.0
    assert growth(1.05 * a_level) > 2.0


def checks(**changes):
    """The table of published numbers by the first column, for the default chip."""
    given = {"round_us": switch_study.published_round_us(), **changes}
    document = switch_study.answer(Chip(), [2], 8, 64 << 10, given["round_us"], lambda _: None)
    return {row["what"]: row for row in document["checks"]}


def test_the_published_bound_of_the_growth_is_kept_by_what_the_closed_form_says():
    row = checks()["growth from 2 to 4096 nodes (us)"]
    assert row["here"] == pytest.approx(block_us(Chip(), 4096, 8) - block_us(Chip(), 2, 8))
    assert row["here"] < PUBLISHED["hu2013"]["growth_us_below"] and row["holds"] is True


def test_what_a_number_was_fitted_to_is_no_evidence():
    fitted = [row for row in checks().values() if row["kind"].startswith("fitted")]
    assert len(fitted) == 2 and all(row["holds"] is None for row in fitted)


def test_the_published_rounds_do_not_give_the_published_factor():
    short, _ = PUBLISHED["sharp2016"]["rows"]
    round_us = short["host_us"] / hosts.rounds(PUBLISHED["sharp2016"]["nodes"])
    found = checks()
    row = found["times as fast as hosts, 16 nodes"]
    assert row["here"] == pytest.approx(hosts.rounds(16) * round_us / block_us(Chip(), 16, 8), rel=0.01)
    assert row["kind"] == "computed" and row["holds"] is False
    needed = found["a round between hosts that would make it so (us)"]["here"]
    given = checks(round_us=needed)["times as fast as hosts, 16 nodes"]
    assert given["here"] == pytest.approx(PUBLISHED["hu2013"]["speedup"], rel=0.01)


@pytest.mark.parametrize("off, holds", [(1.0, True), (1.04, True), (1.06, False), (0.94, False),
                                        (None, False)])
def test_a_stream_is_judged_by_its_published_time(monkeypatch, off, holds):
    source = PUBLISHED["sharp2016"]
    short, long = source["rows"]
    chip = switch_study.sharp_chip(source)
    packets = long["bytes"] // chip.packet_bytes
    if off is not None:  # the source's own time otherwise
        stream_us = off * burst_us(chip, source["nodes"], packets)
        changed = {**source, "rows": [short, {**long, "switch_us": stream_us}]}
        data = {"published": {**PUBLISHED, "sharp2016": changed},
                "software": switch_study._data("software")}
        monkeypatch.setattr(switch_study, "_data", data.get)
    found = checks()
    row = found[f"SHArP, {source['nodes']} hosts, {long['bytes']} B, packets at the wire's rate (us)"]
    assert row["here"] == pytest.approx(burst_us(chip, source["nodes"], packets))
    assert row["holds"] is holds
    packet = found[f"a packet of {chip.packet_bytes} B in that stream (us)"]
    assert packet["here"] == pytest.approx(chip.packet_bytes / chip.rate)
    if off is None:
        assert packet["holds"] is False
        assert packet["published"] == pytest.approx((14.48 - 2.83) / 15, abs=0.005)


def test_the_software_node_reaches_the_bandwidth_and_not_the_latency():
    round_us = switch_study.published_round_us()
    rows = switch_study.answer(Chip(), [2], 8, 8, round_us, lambda _: None)["software"]
    long = [row for row in rows if row["bytes"] >= 64 << 20]
    short = [row for row in rows if row["bytes"] == 8]
    assert long and short
    for row in long:
        assert row["chip_us"] <= row["measured_us"]
        assert row["chip_against_hosts"] == pytest.approx(2 * (row["nodes"] - 1) / row["nodes"], rel=0.01)
        assert row["measured_against_hosts"] > 0.95 * row["chip_against_hosts"]
    assert all(row["measured_against_hosts"] < row["chip_against_hosts"] for row in short)


def test_the_measured_numbers_are_those_of_the_document():
    lines = (Path(__file__).parents[2] / "docs/aggregation.md").read_text().splitlines()
    for row in switch_study._data("software")["rows"]:
        size = {8: "8 B", 1 << 10: "1 KB", 8 << 20: "8 MB", 64 << 20: "64 MB"}[row["bytes"]]
        begin = f"| {row['rails']} | {row['nodes']} | {size} |"
        (line,) = [line for line in lines if line.startswith(begin)]
        assert line.endswith(f"| {row['hosts_us'] / row['node_us']:.2f} |"), row


def test_rounds():
    assert [hosts.rounds(nodes) for nodes in (2, 3, 4, 6, 16, 17, 4096)] == [1, 3, 2, 4, 4, 6, 12]


@pytest.mark.parametrize("values, words", [
    ({"radix": 1}, "radix 1: it must be a whole number from 2"),
    ({"slots": 0}, "slots 0: it must be"),
    ({"rate": -1.0}, "rate -1.0: it must be above 0"),
    ({"wire_us": float("nan")}, "wire_us nan: it must be a time"),
])
def test_chips_that_cannot_be(values, words):
    with pytest.raises(PlanError, match=words):
        Chip(**values)


@pytest.mark.parametrize("nodes, size", [(1, 8), (0, 8), (1 << 20, 8), (4, 0), (4, 1 << 40)])
def test_operations_that_cannot_be(nodes, size):
    with pytest.raises(PlanError, match="it must be a whole number from"):
        all_reduce_us(Chip(), nodes, size)
