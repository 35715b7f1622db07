"""What hosts do without such a switch: the cost forms of the usual algorithms. Pure.

recursive doubling: rounds x (a + S / B), rounds = log2(n), and two more where n is no power of two;
halving and doubling: 2 rounds x a + 2 (n - 1) / n S / B; ring: 2 (n - 1) a + 2 (n - 1) / n S / B. a: one
round between two hosts, B: a wire.
"""

from __future__ import annotations


def rounds(nodes: int) -> int:
    """Rounds of recursive doubling."""
    log = nodes.bit_length() - 1
    return log if nodes == 1 << log else log + 2


def recursive_doubling_us(nodes: int, size: int, round_us: float, rate: float) -> float:
    """For short messages."""
    return rounds(nodes) * (round_us + size / rate)


def halving_doubling_us(nodes: int, size: int, round_us: float, rate: float) -> float:
    """For messages in between."""
    return 2 * rounds(nodes) * round_us + 2 * (nodes - 1) / nodes * size / rate


def ring_us(nodes: int, size: int, round_us: float, rate: float) -> float:
    """For long ones."""
    return 2 * (nodes - 1) * (round_us + size / nodes / rate)


def best_us(nodes: int, size: int, round_us: float, rate: float) -> float:
    """The quickest of the three."""
    return min(algorithm(nodes, size, round_us, rate)
               for algorithm in (recursive_doubling_us, halving_doubling_us, ring_us))
