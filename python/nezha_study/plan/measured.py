"""Measured tables: the JSON of nccl-tests (`-J FILE`) and of `nezha bench --json`. Pure except for
reading.

Units: bytes, seconds, bytes per second. Times between the rows are interpolated, times beyond them
come from a line through the rows (startup and rate), and every answer says which.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Dict, List, Optional, Tuple

from nezha_tools.bench.formulas import bus_factor
from nezha_tools.bench.interference_model import fit_alone
from .documents import read_json
from nezha_tools.cli.errors import PlanError

_NCCL_NAMES = {"alltoall": "all_to_all", "all_gather": "all_gather", "all_reduce": "all_reduce",
               "reduce_scatter": "reduce_scatter", "broadcast": "broadcast", "reduce": "reduce",
               "gather": "gather", "scatter": "scatter"}


@dataclass(frozen=True)
class Row:
    """One size. claimed: the algorithm bandwidth that the file states; None where it states none."""

    size: int
    time_s: float
    claimed: Optional[float]
    wrong: int


@dataclass(frozen=True)
class Measured:
    """A table. rate: of all rails of a host, where the file knows it; rails: how many a host has."""

    program: str
    collective: str
    ranks: int
    nodes: int
    rows: List[Row]
    rate: Optional[float] = None
    rails: Optional[int] = None

    def algbw(self, row: Row) -> float:
        """Algorithm bandwidth: size / time."""
        return row.size / row.time_s

    def busbw(self, row: Row) -> float:
        """Bus bandwidth: algorithm bandwidth x 2 (n - 1) / n for an all_reduce, (n - 1) / n for
        others."""
        return self.algbw(row) * bus_factor(self.collective, self.ranks)

    def line(self) -> Tuple[float, float]:
        """(startup in seconds, seconds per byte) with the smallest relative errors over all rows."""
        return fit_alone([(row.size, row.time_s) for row in self.rows])

    def time_at(self, size: int) -> Tuple[float, str]:
        """(seconds, "measured" | "interpolated" | "extrapolated") of an operation of `size` bytes."""
        for row in self.rows:
            if row.size == size:
                return row.time_s, "measured"
        for low, high in zip(self.rows, self.rows[1:]):
            if low.size < size < high.size:
                part = math.log(size / low.size) / math.log(high.size / low.size)
                return low.time_s * (high.time_s / low.time_s) ** part, "interpolated"
        startup, per_byte = self.line()
        return startup + per_byte * size, "extrapolated"


def read_measured(path: Path) -> Measured:
    """Reads a table. Raises PlanError for a file of another kind, and for rows that are none."""
    document = read_json(path)
    if isinstance(document, dict) and isinstance(document.get("results"), list):
        table = _nccl(path, document)
    elif isinstance(document, dict) and isinstance(document.get("rows"), list) and "config" in document:
        table = _nezha(path, document)
    else:
        raise PlanError(f"{path} is no table of nccl-tests (all_reduce_perf ... -J FILE) or of "
                        "nezha bench (--json FILE)")
    if len({row.size for row in table.rows}) < 2:
        raise PlanError(f"{path}: a table needs two different sizes above 0 at least")
    return table


def _nccl(path: Path, document: Dict[str, Any]) -> Measured:
    arguments = document.get("args")
    program = str(arguments[0] if isinstance(arguments, list) and arguments else "").rsplit("/", 1)[-1]
    name = program.replace("_perf", "")
    if name not in _NCCL_NAMES:
        raise PlanError(f"{path}: args[0] {program!r}: it must be the program that measured, such as "
                        "all_reduce_perf")
    config = document["config"] if isinstance(document.get("config"), dict) else {}
    found = config.get("devices")
    devices: List[Any] = found if isinstance(found, list) else []
    # The list has one entry for each process; a process may drive several accelerators.
    ranks = len(devices) * _count(path, config, "nthreads") * _count(path, config, "ngpus")
    if ranks < 2:
        raise PlanError(f"{path}: config.devices, nthreads and ngpus give {ranks} ranks; at least 2 "
                        "are needed")
    nodes = len({str(device.get("hostname")) for device in devices if isinstance(device, dict)})
    rows = [_nccl_row(path, index, entry) for index, entry in enumerate(document["results"])]
    return Measured(program, _NCCL_NAMES[name], ranks, max(1, nodes), _sorted(rows))


def _count(path: Path, config: Dict[str, Any], name: str) -> int:
    value = config.get(name, 1)
    if not isinstance(value, int) or value < 1:
        raise PlanError(f"{path}: config.{name} {value!r}: it must be a whole number from 1 on")
    return value


def _nccl_row(path: Path, index: int, entry: Any) -> Row:
    where = f"{path}: results[{index}]"
    if not isinstance(entry, dict):
        raise PlanError(f"{where} must be an object with size and out_of_place or in_place")
    times = entry.get("out_of_place") or entry.get("in_place")
    if not isinstance(times, dict):
        raise PlanError(f"{where} has neither out_of_place nor in_place")
    time_us = times.get("time", times.get("cpu_time"))
    claimed = _number(times.get("alg_bw"))
    return _row(where, entry.get("size"), time_us, None if claimed is None else claimed * 1e9,
                times.get("nwrong"))


def _nezha(path: Path, document: Dict[str, Any]) -> Measured:
    config = document["config"] if isinstance(document["config"], dict) else {}
    ranks, collective = config.get("ranks"), config.get("collective")
    if not isinstance(ranks, int) or ranks < 2 or collective not in _NCCL_NAMES.values():
        raise PlanError(f"{path}: config needs ranks of 2 or more and a collective that moves bytes")
    nodes = max(1, ranks // _count(path, config, "ranks_per_node"))
    rows: List[Row] = []
    rails: List[Dict[str, Any]] = []
    for index, entry in enumerate(document["rows"]):
        where = f"{path}: rows[{index}]"
        if not isinstance(entry, dict):
            raise PlanError(f"{where} must be an object with size and time_us")
        claimed = _number(entry.get("algbw_gbps"))
        rows.append(_row(where, entry.get("size"), entry.get("time_us"),
                         None if claimed is None else claimed * 1e9 / 8, entry.get("wrong")))
        found = entry.get("rails") or []
        if not isinstance(found, list) or not all(isinstance(rail, dict) for rail in found):
            raise PlanError(f"{where}.rails must be a list of objects")
        rails = found or rails
    return Measured("nezha bench", str(collective), ranks, nodes, _sorted(rows), _rate_of(rails),
                    len(rails) or None)


def _rate_of(rails: List[Dict[str, Any]]) -> Optional[float]:
    """Bytes per second of all rails; None where one is not known or leads to an aggregation node, over
    which data does not cross as often."""
    rates = [_number(rail.get("rate_gbps")) or 0.0 for rail in rails]
    if not rates or min(rates) <= 0 or any(rail.get("transport") == "agg" for rail in rails):
        return None
    return sum(rates) * 1e9 / 8


def _row(where: str, size: Any, time_us: Any, claimed: Optional[float], wrong: Any) -> Row:
    if not isinstance(size, int) or size < 0:
        raise PlanError(f"{where}.size {size!r}: it must be a whole number of bytes")
    time = _number(time_us)
    if time is None or not 0 < time < 1e12:
        raise PlanError(f"{where} of {size} bytes: its time {time_us!r} must be a number of "
                        "microseconds above 0")
    return Row(size, time / 1e6, claimed, int(_number(wrong) or 0))


def _number(value: Any) -> Optional[float]:
    """`value` where it is a finite number."""
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return float(value) if number and math.isfinite(value) else None


def _sorted(rows: List[Row]) -> List[Row]:
    return sorted((row for row in rows if row.size > 0), key=lambda row: row.size)
