"""Ranks in a sentence."""

from __future__ import annotations

from typing import List, Sequence


def ranks_text(ranks: Sequence[int]) -> str:
    """ "rank 3", "ranks 0, 1, 3"; many of them as ranges: "ranks 0-6, 9"."""
    runs: List[List[int]] = []
    for rank in sorted(ranks):
        if runs and rank == runs[-1][1] + 1:
            runs[-1][1] = rank
        else:
            runs.append([rank, rank])
    parts = [f"{a}" if a == b else f"{a}, {b}" if b == a + 1 else f"{a}-{b}" for a, b in runs]
    return f"rank{'s' if len(ranks) != 1 else ''} {', '.join(parts)}"
