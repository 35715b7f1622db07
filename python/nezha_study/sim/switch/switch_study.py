"""The tables of `nezha sim switch`: the chip against hosts, published numbers, and the software node."""

from __future__ import annotations

import json
from dataclasses import replace
from importlib import resources
from typing import Any, Callable, Dict, List, Sequence

from nezha_tools.cli.units import parse_rate
from . import hosts
from .chip import Chip, all_reduce_us

# How far a computed number may be from the published one that it is said to reproduce.
NEAR = 0.05


def _data(name: str) -> Dict[str, Any]:
    text = (resources.files("nezha_study.sim.switch") / "data" / f"{name}.json").read_text("utf-8")
    return dict(json.loads(text))


def published_round_us() -> float:
    """A round between two hosts, as SHArP's hosts took it: their time by the rounds of recursive
    doubling. The source of the 16 times does not say what a round of its hosts took."""
    source = _data("published")["sharp2016"]
    return float(source["rows"][0]["host_us"]) / hosts.rounds(source["nodes"])


def answer(chip: Chip, nodes: Sequence[int], block: int, burst: int, round_us: float,
           advance: Callable[[Any], None]) -> Dict[str, Any]:
    """Everything as a document. block, burst: bytes of a short and of a long message."""
    rows = []
    for count in nodes:
        rows.append({"nodes": count, "levels": chip.levels(count), **_compared(
            "block", chip, count, block, round_us), **_compared("burst", chip, count, burst, round_us)})
        advance(None)
    published, software = _data("published"), _data("software")
    document = {
        "chip": vars(chip), "round_us": round_us, "block_bytes": block, "burst_bytes": burst,
        "rows": rows,
        "sizes": _by_size(chip, round_us),
        "checks": [*_hu(published["hu2013"], chip, block, round_us), *_sharp(published["sharp2016"])],
        "software": _software(software, chip, round_us),
        "software_measured": {key: software[key] for key in ("machine", "date")},
        "sources": [published["hu2013"]["source"], published["sharp2016"]["source"], software["source"]],
    }
    advance(None)
    return document


def _compared(name: str, chip: Chip, nodes: int, size: int, round_us: float) -> Dict[str, float]:
    switch = all_reduce_us(chip, nodes, size)
    host = hosts.best_us(nodes, size, round_us, chip.rate)
    return {f"{name}_us": switch, f"{name}_hosts_us": host, f"{name}_gain": host / switch}


def _by_size(chip: Chip, round_us: float) -> List[Dict[str, Any]]:
    return [{"bytes": size, **_compared("all_reduce", chip, 16, size, round_us)}
            for size in (8, 64, 256, 1 << 10, 4 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20, 4 << 20)]


def _hu(source: Dict[str, Any], chip: Chip, block: int, round_us: float) -> List[Dict[str, Any]]:
    first, last = source["growth_nodes"]
    growth = all_reduce_us(chip, last, block) - all_reduce_us(chip, first, block)
    count = source["speedup_nodes"]
    switch = all_reduce_us(chip, count, block)
    gain = hosts.best_us(count, block, round_us, chip.rate) / switch
    needed = source["speedup"] * switch / hosts.rounds(count)
    return [
        {"what": f"growth from {first} to {last} nodes (us)",
         "published": f"below {source['growth_us_below']:g}", "here": growth, "kind": "computed",
         "holds": growth < source["growth_us_below"]},
        {"what": f"times as fast as hosts, {count} nodes", "published": source["speedup"], "here": gain,
         "kind": "computed", "holds": _is_near(gain, source["speedup"])},
        {"what": "a round between hosts that would make it so (us)", "published": "", "here": needed,
         "kind": "computed", "holds": None},
    ]


def _sharp(source: Dict[str, Any]) -> List[Dict[str, Any]]:
    """What SHArP's four published times say about the model."""
    short, long = source["rows"]
    nodes = source["nodes"]
    chip = sharp_chip(source)
    rounds = hosts.rounds(nodes)
    packets = -(-long["bytes"] // chip.packet_bytes)
    stream_us = all_reduce_us(chip, nodes, long["bytes"])
    packet_us = (long["switch_us"] - short["switch_us"]) / (packets - 1)
    return [
        {"what": f"SHArP, {nodes} hosts, {short['bytes']} B (us)", "published": short["switch_us"],
         "here": all_reduce_us(chip, nodes, short["bytes"]), "kind": "fitted: by host_us",
         "holds": None},
        {"what": f"times as fast as its hosts, {short['bytes']} B",
         "published": round(short["host_us"] / short["switch_us"], 2),
         "here": short["host_us"] / all_reduce_us(chip, nodes, short["bytes"]),
         "kind": "fitted: the same",
         "holds": None},
        {"what": "a round between its hosts (us)", "published": "", "here": short["host_us"] / rounds,
         "kind": "computed", "holds": None},
        {"what": f"SHArP, {nodes} hosts, {long['bytes']} B, packets at the wire's rate (us)",
         "published": long["switch_us"], "here": stream_us, "kind": "computed",
         "holds": _is_near(stream_us, long["switch_us"])},
        {"what": f"a packet of {chip.packet_bytes} B in that stream (us)",
         "published": round(packet_us, 2), "here": chip.packet_bytes / chip.rate, "kind": "computed",
         "holds": _is_near(chip.packet_bytes / chip.rate, packet_us)},
        {"what": "its growth from 2 to 4096 nodes (us)", "published": "",
         "here": all_reduce_us(chip, 4096, 8) - all_reduce_us(chip, 2, 8), "kind": "computed",
         "holds": None},
    ]


def _is_near(here: float, published: float) -> bool:
    return abs(here / published - 1) <= NEAR


def sharp_chip(source: Dict[str, Any]) -> Chip:
    """A chip of the published kind (36 ports, 18 of them down, 100 Gbit/s); host_us makes the short
    message right."""
    short = source["rows"][0]
    plain = Chip(radix=source["radix"], host_us=0.0, rate=12500.0, packet_bytes=256)
    return replace(plain, host_us=(short["switch_us"] - all_reduce_us(
        plain, source["nodes"], short["bytes"])) / 2)


def _software(source: Dict[str, Any], chip: Chip, round_us: float) -> List[Dict[str, Any]]:
    """The node of `nezha aggregator` as it was measured on one machine, beside a chip on the same wires.
    Hosts beside the chip are those of the model."""
    rows = []
    for row in source["rows"]:
        nodes, size = row["nodes"], row["bytes"]
        rate = parse_rate(row["rails"], row["rails"].removeprefix("agg:"))
        wired = replace(chip, rate=rate / 1e6, packet_bytes=64 << 10)
        switch = all_reduce_us(wired, nodes, size)
        rows.append({"wires": row["rails"], "nodes": nodes, "bytes": size,
                     "chip_us": switch, "measured_us": row["node_us"],
                     "chip_against_hosts": hosts.best_us(nodes, size, round_us, wired.rate) / switch,
                     "measured_against_hosts": row["hosts_us"] / row["node_us"]})
    return rows
