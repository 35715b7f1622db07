"""The file of `nezha bench p2p`, for `nezha calibrate --pairs`: how fast each host's port is. Pure.

A rate belongs to a pair of ranks, and the engine has rates of ports: a port's part of the usual rate is
the best of its cells with other hosts, in the worse direction. A slow pair whose two ports are fast with
others is no port's; unshared_pairs() names it.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, List

from nezha_tools.bench.p2p_matrix import FAR, usual
from nezha_tools.cli.errors import PlanError
from ..plan.documents import read_json

_NOISE = 0.1  # of the usual rate, by which ports of one rate differ in a measurement
Parts = List[List[float]]  # [host][rail], 1: as fast as usual


@dataclass(frozen=True)
class Pairs:
    """What the file says. parts: of the usual rate of the rail, at most 1, of each host's port. slow: for
    people, pairs that are slow although both ports are not."""

    path: Path
    parts: Parts
    slow: List[str]

    def check(self, hosts: int, rails: int) -> None:
        """Raises PlanError where the file is of another number of hosts or rails: both are taken in its
        order."""
        if (len(self.parts), len(self.parts[0])) != (hosts, rails):
            raise PlanError(f"{self.path} is of {len(self.parts)} hosts with {len(self.parts[0])} rails, "
                            f"and {hosts} hosts with {rails} rails are calibrated; they must be the "
                            "same, in its order")


def read_pairs(path: Path) -> Pairs:
    """Raises PlanError where the file is no such file, or has one host only."""
    document = read_json(path)
    try:
        found = [_Rail(each) for each in document["rails"]]
        hosts = {rail.hosts for rail in found}
    except (KeyError, TypeError, IndexError, ValueError):
        hosts = set()
    if len(hosts) != 1:
        raise PlanError(f"{path} is no file of nezha bench p2p --json={path.name}")
    if hosts == {1}:
        raise PlanError(f"{path}: its ranks share a host, so it says nothing about ports")
    by_rail = [rail.parts() for rail in found]
    return Pairs(path, [list(parts) for parts in zip(*by_rail)],
                 [line for rail, parts in zip(found, by_rail) for line in rail.unshared_pairs(parts)])


class _Rail:
    """One rail of the file."""

    def __init__(self, content: Any) -> None:
        self._rates = [[float(each) for each in row] for row in content["one_way_gbps"]]
        self._host_of = [int(port["host_number"]) for port in content["ports"]]
        self._names = [f"{port['device']} of {port['host']}" for port in content["ports"]]
        ranks = range(len(self._host_of))
        if len(self._rates) != len(ranks) or any(len(row) != len(ranks) for row in self._rates):
            raise ValueError
        self._cells = [(a, b) for a in ranks for b in ranks if self._host_of[a] != self._host_of[b]]
        self.hosts = 1 + max(self._host_of)
        self._usual = usual(self._rates, self._cells, False) if self._cells else 0.0

    def _best(self, host: int, end: int) -> float:
        """Of the host's cells as sender (end 0) or receiver (1)."""
        return max(self._rates[cell[0]][cell[1]] for cell in self._cells
                   if self._host_of[cell[end]] == host)

    def parts(self) -> List[float]:
        """By host."""
        found = [min(self._best(host, end) for end in (0, 1)) / self._usual
                 for host in range(self.hosts)]
        return [1.0 if part >= 1 - _NOISE else part for part in found]

    def unshared_pairs(self, parts: List[float]) -> List[str]:
        """Pairs below the slower one of their two ports by so much that it is no noise."""
        lines = []
        for a, b in self._cells:
            ports = min(parts[self._host_of[a]], parts[self._host_of[b]]) * self._usual
            if self._rates[a][b] * FAR < ports:
                lines.append(f"{self._names[a]} to {self._names[b]}: {self._rates[a][b]:.3g} Gbit/s, "
                             f"where both ports reach {ports:.3g}; the simulation has no rates of single "
                             "pairs")
        return lines
