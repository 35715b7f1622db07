"""`nezha plan check`: a measured table, or one number, against what the hardware allows. Pure.

Bus bandwidth of a good implementation is the speed of the slowest wire, whatever the number of
ranks; with an in-network reduction it is not: a rank sends (n + 1) / n times the data where a ring
sends 2 (n - 1) / n, so that bus bandwidth may exceed the wire (the maintainers of nccl-tests,
issues 212 and 239).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import List, Optional, Tuple

from nezha_tools.bench.formulas import bus_factor
from nezha_tools.cli.errors import PlanError
from nezha_tools.cli.validation import refused
from .measured import Measured, Row
from .published import Accelerator, data, practical
from nezha_tools.cli.units import rate_text, time_text

GOOD = 0.75  # the 80 % rule, and 5 points for what a benchmark adds
FAIR = 0.60
_ABOVE = 1.02  # more than that is not a matter of rounding
_LATENCY = 0.5  # startup is so much of a row's time: bandwidth says nothing about it
_SLOW = 2.0  # so many times what the line through all rows says make a latency-bound row bad
_DIP = 0.98
_CLAIM = 0.02


@dataclass(frozen=True)
class Hardware:
    """What the wires allow: bytes per second of one direction, advertised, and how that was found."""

    rate: float
    what: str
    nics: Optional[int] = None
    inside: bool = True


def hardware(table: Measured, chip: Optional[Accelerator], nics: Optional[Tuple[int, float]],
             against: Optional[float]) -> Hardware:
    """The slowest wire of the table's collective. against: a rate that the caller knows better.

    Inside a node the accelerator's links, between nodes the NICs of a node (and not more than the
    links). In an all_to_all over nodes a rank has its part of the NICs, for the part of its data
    that leaves the node.
    """
    if against is not None:
        return Hardware(against, "as given", inside=table.nodes == 1)
    if nics is None and table.rate is not None:
        return Hardware(table.rate, "the rails in the file", table.rails, inside=False)
    if table.nodes == 1:
        if chip is None:
            raise PlanError("accelerator is missing: name it, or give --against RATE, to say what "
                            "the links allow")
        return Hardware(chip.rate_among(table.ranks), f"{chip.link} of {table.ranks} x {chip.name}")
    if nics is None:
        raise PlanError(f"nics is missing: the table is of {table.nodes} nodes and names no rates; say "
                        "what connects them, such as 8x400Gbit/s, or give --against RATE")
    count, each = nics
    rate, what = count * each, f"{count} NICs of a node"
    local = table.ranks // table.nodes
    if table.collective == "all_to_all":
        leaves = (table.ranks - local) / (table.ranks - 1)
        rate, what = rate / local / leaves, what + f", shared by {local} ranks"
    if chip is not None and local > 1 and chip.rate_among(local) < rate:
        return Hardware(chip.rate_among(local), f"{chip.link} inside the nodes")
    return Hardware(rate, what, count, inside=False)


def wire_rate(busbw: float, ranks: int, in_network: bool) -> float:
    """Bytes per second on a rank's wire at this bus bandwidth of an all_reduce."""
    if not in_network:
        return busbw
    return busbw / bus_factor("all_reduce", ranks) * (ranks + 1) / ranks


@dataclass(frozen=True)
class Judged:
    """A row with its part of the hardware's rate, what is said about it, and whether that is bad.

    pieces: how many times longer the largest row's bytes take in pieces of this size.
    """

    row: Row
    algbw: float
    busbw: float
    part: float
    words: str
    bad: bool
    pieces: float


def judge(table: Measured, limit: Hardware, in_network: bool) -> List[Judged]:
    """Every row. Raises PlanError for an in-network reduction of another collective than all_reduce."""
    if in_network and table.collective != "all_reduce":
        raise refused("in_network", table.collective, "asked for an all_reduce")
    startup, per_byte = table.line()
    largest = table.algbw(table.rows[-1])
    judged, best = [], 0.0
    for row in table.rows:
        busbw = table.busbw(row)
        part = wire_rate(busbw, table.ranks, in_network) / limit.rate
        expected = startup + per_byte * row.size
        words, bad = _words(row, table.algbw(row), part, startup / row.time_s, row.time_s / expected,
                            busbw / best if best else 1.0)
        judged.append(
            Judged(row, table.algbw(row), busbw, part, words, bad, largest / table.algbw(row)))
        best = max(best, busbw)
    return judged


def _words(row: Row, algbw: float, part: float, startup: float, slower: float,
           against_smaller: float) -> Tuple[str, bool]:
    if row.wrong:
        return f"{row.wrong} wrong elements", True
    if row.claimed is not None and row.claimed >= 1e7 and abs(row.claimed / algbw - 1) > _CLAIM:
        return "the file's bandwidth is not its size / time", True
    if part > _ABOVE:
        return "more than the wire carries", True
    if against_smaller < _DIP:
        return "slower than a smaller size", True
    if part >= GOOD:
        return "good", False
    if startup >= _LATENCY:
        late = slower > _SLOW
        return ("latency, and slower than other rows let expect" if late else "latency"), late
    if part >= FAIR:
        return "fair", False
    return "grows with the size", False


def grade(part: float) -> str:
    """One word for the best rows of a table: good, fair, low, or more than the wire carries."""
    if part > _ABOVE:
        return "more than the wire carries"
    return "good" if part >= GOOD else "fair" if part >= FAIR else "low"


def causes(part: float, busbw: float, limit: Hardware, ranks: int) -> List[str]:
    """What usually makes the best of a table so slow, or so quick, as sentences; none where it is
    good."""
    if part > _ABOVE:
        wire = wire_rate(busbw, ranks, True)
        return ["Bus bandwidth counts what a ring sends. If switches add up (NVLS, SHARP), the "
                f"wire carried {rate_text(wire)}, {100 * wire / limit.rate:.0f} %: ask again with "
                "--in-network. Else the rate that it is compared with is not this hardware's."]
    if part >= GOOD:
        return []
    found = []
    if GOOD <= 2 * part <= _ABOVE:
        found.append(f"If the {rate_text(limit.rate)} are of both directions, half of it counts, "
                     f"and this is {200 * part:.0f} %.")
    if limit.nics and limit.nics > 1 and part * limit.nics / practical() <= limit.nics - 0.5:
        count = max(1, round(part * limit.nics / practical()))
        found.append(f"It is about what {count} of {limit.nics} NICs carry: look for ones that are "
                     "down, not used, or far from their accelerator.")
    for row in data("intra_node")["pcie_x16"] if not found else []:
        bus = row["gb"] * 1e9
        if limit.inside and GOOD <= busbw / bus <= _ABOVE and limit.rate > 1.5 * bus:
            found.append(f"It is what {row['generation']} x16 carries ({row['gb']:g} GB/s): "
                         "accelerators may reach each other through the host instead of their "
                         "links.")
    found.append("A rate below 80 % at large sizes otherwise comes from sizes that are still too "
                 "small, a network shared with others, or paths that collide in switches (run "
                 "again alone, and with larger sizes).")
    return found


def summary(judged: List[Judged], table: Measured) -> List[str]:
    """What the table says as a whole: startup, rate, and from which size on pieces cost little."""
    startup, per_byte = table.line()
    factor = bus_factor(table.collective, table.ranks)
    lines = [f"startup {time_text(startup)}; beyond it {rate_text(factor / per_byte)} of bus "
             "bandwidth, by a line through all rows"]
    cheap = next((each for each in judged if each.pieces <= 1.1), judged[-1])
    small = judged[0]
    lines.append(f"in pieces of {small.row.size} B the largest size would take {small.pieces:.3g} "
                 f"times as long; from {cheap.row.size} B on pieces cost at most 10 % more")
    return lines
