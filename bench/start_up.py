#!/usr/bin/env python3
"""Measures what starting a job costs: jobs of several sizes on this host, two rails of loopback each.

    bench/start_up.py [RANKS...]        default: 16 64 128

Prints a table: seconds to import Nezha, to be connected, and for the first all_reduce of 4 KiB (the
slowest rank's); descriptors and resident memory of a rank (the largest), and how much more memory that
is than Python with NumPy takes alone. A job that does not start is a row with its first error. Nothing
else should run on the machine meanwhile.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, Dict, List

NEZHA = str(Path(sys.executable).with_name("nezha"))
RAILS = "127.1.0.1/32,127.2.0.1/32"
LIMIT_S = 300

RANK = """
import json, os, sys, time

def resident():
    with open("/proc/self/status") as lines:
        return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS"))

import numpy
alone = resident()
began = time.monotonic()
import nezha
imported = time.monotonic()
with nezha.init() as comm:
    met = time.monotonic()
    comm.all_reduce(numpy.ones(1024, numpy.float32))
    told = {"import_s": imported - began, "start_s": met - imported,
            "first_s": time.monotonic() - met, "descriptors": len(os.listdir("/proc/self/fd")),
            "resident_kib": resident(), "more_kib": resident() - alone}
    with open(os.path.join(sys.argv[1], str(comm.rank)), "w") as file:
        json.dump(told, file)
    comm.barrier()
"""


def measure(ranks: int) -> Dict[str, Any]:
    """Starts one job; the largest value of any rank for each figure, or {"error": text}."""
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder) / "rank.py"
        program.write_text(RANK)
        said = Path(folder) / "said"
        said.mkdir()
        job = subprocess.run(
            [NEZHA, "run", "-n", str(ranks), sys.executable, str(program), str(said)],
            env={**os.environ, "NEZHA_RAILS": RAILS}, capture_output=True, text=True,
            timeout=LIMIT_S, check=False)
        rows: List[Dict[str, float]] = [json.loads(path.read_text()) for path in said.iterdir()]
        if job.returncode == 0 and len(rows) == ranks:
            return {name: max(row[name] for row in rows) for name in rows[0]}
        lines = [line for line in job.stderr.splitlines() if "errors." in line]
        return {"error": (lines or job.stderr.splitlines() or ["no reason"])[0].strip()[:120]}


def main() -> None:
    """Prints the table."""
    print("| ranks | import | connected | first all_reduce | descriptors | memory | over NumPy |")
    print("|---|---|---|---|---|---|---|")
    for ranks in [int(text) for text in sys.argv[1:]] or [16, 64, 128]:
        row = measure(ranks)
        if "error" in row:
            print(f"| {ranks} | {row['error']} | | | | | |", flush=True)
            continue
        print(f"| {ranks} | {row['import_s']:.1f} s | {row['start_s']:.1f} s | {row['first_s']:.2f} s | "
              f"{row['descriptors']} | {row['resident_kib'] / 1024:.1f} MiB | "
              f"{row['more_kib'] / 1024:.1f} MiB |", flush=True)


if __name__ == "__main__":
    main()
