#!/usr/bin/env python3
"""What the protection of connections costs: all_reduces of two ranks of this host over one rail of
loopback, which costs next to nothing, with neither, checksum=on, integrity=on and tls=on, in turns.

    bench/protection.py [TURNS]         default: 5

Prints a table: the median time of an operation and processor seconds of a rank per GB, and how much of
what TLS adds each of the others adds. Nothing else should run on the machine meanwhile.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Dict, List, Tuple

NEZHA = str(Path(sys.executable).with_name("nezha"))
WAYS = ("neither", "checksum", "integrity", "tls")
SIZES = {1 << 20: 600, 64 << 20: 20}  # bytes -> operations
LIMIT_S = 300

Figures = Dict[int, Tuple[float, float]]  # bytes -> ms, processor seconds per GB


def run_rank() -> None:
    """One rank; rank 0 prints its figures."""
    import numpy as np

    import nezha

    figures = {}
    with nezha.init() as comm:
        for size, count in SIZES.items():
            data = np.full(size // 4, comm.rank, np.float32)
            for _ in range(3):
                comm.all_reduce(data, "max")
            used, times = time.process_time(), []
            for _ in range(count):
                begin = time.perf_counter()
                comm.all_reduce(data, "max")
                times.append(time.perf_counter() - begin)
            used = time.process_time() - used
            figures[size] = (statistics.median(times) * 1e3, used / (count * size) * 1e9)
        if comm.rank == 0:
            print(json.dumps(figures), flush=True)


def measure(way: str) -> Figures:
    """The figures of one job. Raises RuntimeError when it fails."""
    options = [] if way == "neither" else ["-x", f"NEZHA_{way.upper()}=on"]
    job = subprocess.run([NEZHA, "run", "-n", "2", "-x", "NEZHA_RAILS=lo", "-x", "NEZHA_SHM=off",
                          *options, sys.executable, os.path.abspath(__file__), "--rank"],
                         capture_output=True, text=True, timeout=LIMIT_S, check=False)
    found = [line.partition("{")[2] for line in job.stdout.splitlines() if "{" in line]
    if job.returncode != 0 or len(found) != 1:
        raise RuntimeError(f"{way}: {job.stderr.strip()[-500:] or job.stdout[-500:]}")
    return {int(size): (row[0], row[1]) for size, row in json.loads("{" + found[0]).items()}


def show(turns: Dict[str, List[Figures]]) -> None:
    """Prints the table."""
    print(f"| all_reduce | {' | '.join(WAYS)} |\n|---|{'---|' * len(WAYS)}")
    for size in SIZES:
        for index, what in enumerate(("ms", "processor seconds of a rank per GB")):
            middle = {way: statistics.median(turn[size][index] for turn in turns[way]) for way in WAYS}
            by_tls = middle["tls"] - middle["neither"]
            cells = [f"{middle[way]:.3g}" + ("" if way in ("neither", "tls") or by_tls <= 0 else
                                             f" ({(middle[way] - middle['neither']) / by_tls:.2f})")
                     for way in WAYS]
            print(f"| {size >> 20} MiB, {what} | {' | '.join(cells)} |", flush=True)


def main() -> None:
    """Entry point."""
    if sys.argv[1:] == ["--rank"]:
        return run_rank()
    turns: Dict[str, List[Figures]] = {way: [] for way in WAYS}
    for turn in range(int(sys.argv[1]) if sys.argv[1:] else 5):
        for way in WAYS if turn % 2 == 0 else WAYS[::-1]:
            turns[way].append(measure(way))
    return show(turns)


if __name__ == "__main__":
    main()
