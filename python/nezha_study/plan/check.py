"""The answers of `nezha plan check` as JSON. Pure except for reading the table."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Dict, Optional, Tuple

from . import verdict
from nezha_tools.cli.errors import PlanError
from nezha_tools.cli.validation import whole
from .measured import read_measured
from .published import accelerator
from nezha_tools.cli.units import gbps, rate_text


@dataclass(frozen=True)
class Wires:
    """What is said about the hardware: a name of an accelerator, (count, bytes per second) of a
    node's NICs, the slowest wire in bytes per second; whether switches added up."""

    chip: Optional[str]
    nics: Optional[Tuple[int, float]]
    against: Optional[float]
    in_network: bool


def table(path: Path, wires: Wires, size: Optional[int]) -> Dict[str, Any]:
    """A measured table judged row by row. size: bytes of one operation whose time is asked for."""
    measured = read_measured(path)
    chip = accelerator(wires.chip) if wires.chip else None
    limit = verdict.hardware(measured, chip, wires.nics, wires.against)
    judged = verdict.judge(measured, limit, wires.in_network)
    best = max(judged, key=lambda each: each.busbw)
    answer: Dict[str, Any] = {
        "program": measured.program, "collective": measured.collective, "ranks": measured.ranks,
        "nodes": measured.nodes, "in_network": wires.in_network, "hardware": _hardware(limit),
        "rows": [{
            "size": each.row.size, "time_us": 1e6 * each.row.time_s, "algbw_gb_per_s": each.algbw / 1e9,
            "busbw_gb_per_s": each.busbw / 1e9, "percent": 100 * each.part, "verdict": each.words,
            "bad": each.bad, "in_pieces": each.pieces,
        } for each in judged],
        "best_busbw_gb_per_s": best.busbw / 1e9, "best_percent": 100 * best.part,
        "grade": verdict.grade(best.part),
        "causes": verdict.causes(best.part, best.busbw, limit, measured.ranks),
        "summary": verdict.summary(judged, measured),
    }
    if size is not None:
        whole("size", size, 1, 1 << 60)
        seconds, how = measured.time_at(size)
        answer["asked"] = {"size": size, "time_us": 1e6 * seconds, "how": how}
    return answer


def number(busbw: float, ranks: int, wires: Wires) -> Dict[str, Any]:
    """One bus bandwidth (bytes per second) of an all_reduce, judged."""
    whole("ranks", ranks, 2, 1 << 20)
    limit = _limit(ranks, wires)
    wire = verdict.wire_rate(busbw, ranks, wires.in_network)
    part = wire / limit.rate
    return {
        "busbw_gb_per_s": busbw / 1e9, "busbw_gbit_per_s": gbps(busbw), "ranks": ranks,
        "in_network": wires.in_network, "wire_gb_per_s": wire / 1e9, "hardware": _hardware(limit),
        "percent": 100 * part, "grade": verdict.grade(part),
        "of_both_directions": f"against {rate_text(2 * limit.rate)}, both directions together as "
                              f"vendors count them, it would be {50 * part:.0f} %",
        "causes": verdict.causes(part, busbw, limit, ranks),
    }


def _limit(ranks: int, wires: Wires) -> verdict.Hardware:
    if wires.against is not None:
        return verdict.Hardware(wires.against, "as given", inside=wires.nics is None)
    if wires.nics is not None:
        count, each = wires.nics
        return verdict.Hardware(count * each, f"{count} NICs of a node", count, inside=False)
    if wires.chip is None:
        raise PlanError("accelerator is missing: name it, or give --nics or --against, to say what "
                        "the wires allow")
    chip = accelerator(wires.chip)
    return verdict.Hardware(chip.rate_among(ranks), f"{chip.link} of {ranks} x {chip.name}")


def _hardware(limit: verdict.Hardware) -> Dict[str, Any]:
    return {"what": limit.what, "gb_per_s": limit.rate / 1e9, "gbit_per_s": gbps(limit.rate)}
