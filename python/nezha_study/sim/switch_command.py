"""`nezha sim switch`: an all_reduce that switch chips add up, beside hosts and the software node."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Dict, Optional

import typer

from nezha_tools.cli import console, figures
from nezha_tools.cli.progress import progress
from nezha_tools.cli.errors import BenchError
from nezha_tools.cli.sizes import format_size, parse_size
from nezha_tools.cli.errors import PlanError
from nezha_tools.cli.validation import refused, whole
from nezha_tools.cli.units import parse_rate, time_text
from nezha_tools.cli.conventions import FOUND, WRONG_LINE, json_option

HELP = """An all_reduce that switch chips add up, beside hosts.

Short messages (block) and long ones (burst), packet by packet; beside the algorithms of hosts, what was
published of such switches, and what an aggregation node in software was measured to do on one machine,
which the table names. docs/switch_study.md says what is assumed.

\b
Examples:
  nezha sim switch
  nezha sim switch --nodes 16,256,4096 --radix 36 --rate 100Gbit/s --burst 1M
  nezha sim switch --slots 4 --plot out/switch.png --json=out/switch.json
"""
_NODES = "2,4,8,16,32,64,128,256,512,1024,2048,4096"


def switch(
    nodes: str = typer.Option(_NODES, "--nodes", help="Numbers of nodes."),
    block: str = typer.Option("8", "--block", help="Size of the short message: one packet."),
    burst: str = typer.Option("64K", "--burst", help="Size of the long one."),
    radix: int = typer.Option(16, "--radix", help="Children of a switch."),
    rate: str = typer.Option("10Gbit/s", "--rate", help="Of a wire, one direction."),
    packet: str = typer.Option("1K", "--packet", help="Payload of a packet."),
    slots: int = typer.Option(64, "--slots", help="Packets of a host that switches hold at a time."),
    round_us: Optional[float] = typer.Option(None, "--round-us", show_default=False, help="One round "
                                             "between two hosts, in microseconds (default: 0.86, as "
                                             "hosts with InfiniBand took in 2016, see the document)."),
    json_to: Optional[str] = json_option(),
    plot_to: Optional[Path] = typer.Option(None, "--plot", help="Write a picture."),
) -> None:
    from .switch import switch_figure, switch_study
    from .switch.chip import NODES_MAX, PACKETS_MAX, Chip

    with console.one_line("sim switch", PlanError, ValueError, code=WRONG_LINE):
        chip = Chip(radix=radix, rate=parse_rate("rate", rate) / 1e6, packet_bytes=parse_size(packet),
                    slots=slots)
        sizes = parse_size(block), parse_size(burst)
        whole("block", sizes[0], 1, chip.packet_bytes)
        whole("burst", sizes[1], 1, PACKETS_MAX * chip.packet_bytes)
        counts = [_count(each, NODES_MAX) for each in nodes.split(",")]
        if round_us is None:
            round_us = switch_study.published_round_us()
        if not 0 < round_us <= 1e6:
            raise refused("round-us", round_us, "a time above 0, at most 1 s, in microseconds")
    with console.one_line("sim switch", BenchError, OSError, code=FOUND):
        with progress() as step:
            document = switch_study.answer(chip, counts, *sizes, round_us, step("nodes", len(counts) + 1))
        console.answer(document, json_to, _show)
        figures.answer(plot_to, lambda path: switch_figure.plot(document, path))


def _count(text: str, most: int) -> int:
    if not text.strip().isdecimal():
        raise refused("nodes", text, f"whole numbers from 2 to {most}, such as 16 or 2,64,4096")
    return whole("nodes", int(text), 2, most)


def _show(document: Dict[str, Any]) -> None:
    for name in ("block", "burst"):
        size = format_size(document[f"{name}_bytes"])
        console.section(f"{name}-allreduce of {size}{'' if size[-1].isalpha() else ' B'}", [{
            "nodes": row["nodes"], "levels": row["levels"], "switches": _time(row[f"{name}_us"]),
            "hosts": _time(row[f"{name}_hosts_us"]), "x": f"{row[f'{name}_gain']:.1f}",
        } for row in document["rows"]])
    console.section("16 nodes by size", [{
        "size": format_size(row["bytes"]), "switches": _time(row["all_reduce_us"]),
        "hosts": _time(row["all_reduce_hosts_us"]), "x": f"{row['all_reduce_gain']:.1f}",
    } for row in document["sizes"]])
    console.section("what was published", [{
        "what": row["what"], "published": console.text_of(row["published"]),
        "here": f"{row['here']:.2f}",
        "how": row["kind"], "holds": "" if row["holds"] is None else console.text_of(row["holds"]),
    } for row in document["checks"]])
    measured = document["software_measured"]
    console.section(f"an aggregation node in software, as measured on {measured['date']} on one machine "
                     f"({measured['machine']}), beside a chip", [{
        "wires": row["wires"], "nodes": row["nodes"], "size": format_size(row["bytes"]),
        "chip": _time(row["chip_us"]), "node": _time(row["measured_us"]),
        "chip x hosts": f"{row['chip_against_hosts']:.2f}",
        "node x hosts": f"{row['measured_against_hosts']:.2f}",
    } for row in document["software"]])
    console.sentences(["`nezha bench switch` measures a node in software on this machine. Fitted: to "
                        "that published number, so it confirms nothing.",
                        *(f"Source: {source}" for source in document["sources"])])


def _time(microseconds: float) -> str:
    return time_text(microseconds / 1e6)
