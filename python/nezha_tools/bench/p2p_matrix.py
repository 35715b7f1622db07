"""What a matrix of pairs says: the usual value, cells far from it, and ports that they share. Pure.

Cells between ranks of one host never leave it, so they are compared with each other only.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Callable, Dict, List, Optional, Sequence, Tuple

from .formulas import median
from .p2p_spec import Matrix, Port

FAR = 2.0  # times slower than usual is slow
Cell = Tuple[int, int]  # sender, receiver


@dataclass(frozen=True)
class Slow:
    """A cell that is FAR from the usual value of its rail."""

    sender: int
    receiver: int
    value: float
    usual: float


def usual(matrix: Matrix, cells: Sequence[Cell], is_time: bool) -> float:
    """The median over the ranks of the best cell that each has, as sender or receiver.

    Not the median of the cells: of three or four hosts, one slow port makes half of all cells slow.
    """
    best = min if is_time else max
    ranks = sorted({rank for cell in cells for rank in cell})
    return median([best(matrix[a][b] for a, b in cells if rank in (a, b)) for rank in ranks])


def slow_cells(matrix: Matrix, host_of: Sequence[int], is_time: bool = False) -> List[Slow]:
    """Rates below usual / FAR, or times (is_time) above usual x FAR, ordered by sender and receiver."""
    found = []
    ranks = range(len(host_of))
    for is_inside in (False, True):
        cells = [(a, b) for a in ranks for b in ranks
                 if a != b and (host_of[a] == host_of[b]) == is_inside]
        if not cells:
            continue
        level = usual(matrix, cells, is_time)
        found += [Slow(a, b, matrix[a][b], level) for a, b in cells
                  if (matrix[a][b] > FAR * level if is_time else matrix[a][b] * FAR < level)]
    return sorted(found, key=lambda cell: (cell.sender, cell.receiver))


def of_rate(one_way: Matrix, ports: Sequence[Port], host_of: Sequence[int],
            directions: int = 1) -> List[List[Optional[float]]]:
    """Each rate as a part of what the slower of its two ports is shaped to or advertised with; None where
    that is not known, and inside hosts."""
    def part(a: int, b: int) -> Optional[float]:
        rates = (ports[a].rate, ports[b].rate)
        if host_of[a] == host_of[b] or not rates[0] or not rates[1]:
            return None
        return one_way[a][b] / (directions * min(rates[0], rates[1]))

    return [[part(a, b) for b in range(len(ports))] for a in range(len(ports))]


def ports_in_common(slow: Sequence[Slow], host_of: Sequence[int]) -> Tuple[List[int], List[int]]:
    """(senders, receivers) whose cells to two or more other hosts are all slow."""
    is_slow = {(cell.sender, cell.receiver) for cell in slow}

    def all_slow(cells: List[Cell]) -> bool:
        return len({host_of[b] for _, b in cells} | {host_of[a] for a, _ in cells}) > 2 and all(
            cell in is_slow for cell in cells)

    ranks = range(len(host_of))

    def others(rank: int) -> List[int]:
        return [other for other in ranks if host_of[other] != host_of[rank]]

    return ([rank for rank in ranks if all_slow([(rank, other) for other in others(rank)])],
            [rank for rank in ranks if all_slow([(other, rank) for other in others(rank)])])


def sentences(slow: Sequence[Slow], ports: Sequence[Port], host_of: Sequence[int], what: str,
              unit: Callable[[float], str], is_symmetric: bool = True) -> List[str]:
    """Which port of which host is slow, or which pair where no port is slow with every other host.

    what: "rate one way" and the like; unit: a value as text, "0.953 Gbit/s"; is_symmetric: a pair has one
    value, and one sentence.
    """
    senders, receivers = ports_in_common(slow, host_of)
    lines = []
    for rank in sorted({*senders, *receivers}):
        cells = [cell for cell in slow if (rank in senders and cell.sender == rank)
                 or (rank in receivers and cell.receiver == rank)]
        ways = {(True, True): "in both directions", (True, False): "where it sends",
                (False, True): "where it receives"}[rank in senders, rank in receivers]
        values = [cell.value for cell in cells]
        lines.append(f"SLOW PORT: {_port(ports, rank)}, {what}: {ways} it has {unit(min(values))} to "
                     f"{unit(max(values))} with every other host; {unit(cells[0].usual)} is usual.")
    for cell in slow:
        if is_symmetric and cell.sender > cell.receiver:
            continue
        if cell.sender not in senders and cell.receiver not in receivers:
            between = "and" if is_symmetric else "to"
            lines.append(f"SLOW PAIR: {_port(ports, cell.sender)} {between} "
                         f"{_port(ports, cell.receiver)}, {what}: {unit(cell.value)}; "
                         f"{unit(cell.usual)} is usual. "
                         f"{_advice(host_of, cell)}")
    return lines


def _port(ports: Sequence[Port], rank: int) -> str:
    return f"{ports[rank].device} of {ports[rank].host} (rank {rank})"


def _advice(host_of: Sequence[int], cell: Slow) -> str:
    if host_of[cell.sender] == host_of[cell.receiver]:
        return "Both ranks are on one host: its processors and memory are in question, and no port."
    if len(set(host_of)) < 3:
        return "Of two hosts it does not follow which one's port is slow; measure with a third one."
    return "These ports are not slow with every other host: look at the way between them."


def gbps_matrix(matrix: Matrix, copy: Sequence[float]) -> Matrix:
    """Bytes per second as Gbit/s, with the memory copies in the diagonal."""
    return [[8e-9 * (copy[a] if a == b else value) for b, value in enumerate(row)]
            for a, row in enumerate(matrix)]


def as_dict(cell: Slow, what: str, scale: float) -> Dict[str, object]:
    """The cell for JSON, its values in the unit of the matrix `what`."""
    return {"what": what, "from": cell.sender, "to": cell.receiver, "value": cell.value * scale,
            "usual": cell.usual * scale}
