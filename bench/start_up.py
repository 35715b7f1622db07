#!/usr/bin/env python3
"""Measures what starting a job costs: jobs of several sizes on this host, two rails of loopback each.

    bench/start_up.py [RANKS...]                                 default: 16 64 128
    bench/start_up.py --compare no-secret|NEZHA [--turns N] [RANKS...]

Prints a table: seconds to import Nezha, to be connected, and for the first all_reduce of 4 KiB (the
slowest rank's); descriptors and resident memory of a rank (the largest), and how much more memory that
is than Python with NumPy takes alone. A job that does not start is a row with its first error. Nothing
else should run on the machine meanwhile.

--compare takes turns: no-secret, of jobs that a shell starts with a secret and without one; else of this
build's `nezha run` and another's, whose command NEZHA is. It prints the median seconds to be connected of
both, and the median ratio of the turns.
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, Dict, List

NEZHA = str(Path(sys.executable).with_name("nezha"))
NO_SECRET = "no-secret"
SECRET = "secret"  # without nezha run, which would make one
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


def start(way: str, ranks: int, program: List[str]) -> "subprocess.CompletedProcess[str]":
    """Runs the program as a job. `way`: NO_SECRET, SECRET, or the command of a build."""
    environment = {**os.environ, "NEZHA_RAILS": RAILS, "NEZHA_SHM": "off"}
    if way not in (NO_SECRET, SECRET):
        python = str(Path(way).with_name("python"))
        return subprocess.run([way, "run", "-n", str(ranks), python, *program], env=environment,
                              capture_output=True, text=True, timeout=LIMIT_S, check=False)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        environment.update(WORLD_SIZE=str(ranks), MASTER_ADDR="127.0.0.1",
                           MASTER_PORT=str(free.getsockname()[1]))
    if way == SECRET:
        secret = Path(program[0]).with_name("secret")
        secret.touch(0o600)
        secret.write_text(os.urandom(32).hex())
        environment["NEZHA_SECRET_FILE"] = str(secret)
    shell = 'for rank in $(seq 0 $((WORLD_SIZE - 1))); do RANK=$rank "$@" & done; wait'
    return subprocess.run(["sh", "-c", shell, "sh", sys.executable, *program], env=environment,
                          capture_output=True, text=True, timeout=LIMIT_S, check=False)


def measure(ranks: int, way: str = NEZHA) -> Dict[str, Any]:
    """Starts one job; the largest value of any rank for each figure, or {"error": text}."""
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder) / "rank.py"
        program.write_text(RANK)
        said = Path(folder) / "said"
        said.mkdir()
        job = start(way, ranks, [str(program), str(said)])
        rows: List[Dict[str, float]] = [json.loads(path.read_text()) for path in said.iterdir()]
        if job.returncode == 0 and len(rows) == ranks:
            return {name: max(row[name] for row in rows) for name in rows[0]}
        lines = [line for line in job.stderr.splitlines() if "errors." in line]
        return {"error": (lines or job.stderr.splitlines() or ["no reason"])[0].strip()[:120]}


def show(sizes: List[int]) -> None:
    """Prints the table."""
    print("| ranks | import | connected | first all_reduce | descriptors | memory | over NumPy |")
    print("|---|---|---|---|---|---|---|")
    for ranks in sizes:
        row = measure(ranks)
        if "error" in row:
            print(f"| {ranks} | {row['error']} | | | | | |", flush=True)
            continue
        print(f"| {ranks} | {row['import_s']:.1f} s | {row['start_s']:.1f} s | {row['first_s']:.2f} s | "
              f"{row['descriptors']} | {row['resident_kib'] / 1024:.1f} MiB | "
              f"{row['more_kib'] / 1024:.1f} MiB |", flush=True)


def compare(other: str, turns: int, sizes: List[int]) -> None:
    """Prints the table of both; a job that does not start ends it."""
    this = SECRET if other == NO_SECRET else NEZHA
    print(f"| ranks | connected | connected, {other} | ratio |")
    print("|---|---|---|---|")
    for ranks in sizes:
        seconds: Dict[str, List[float]] = {this: [], other: []}
        for turn in range(turns):
            for way in (this, other) if turn % 2 == 0 else (other, this):
                row = measure(ranks, way)
                if "error" in row:
                    sys.exit(f"{ranks} ranks by {way}: {row['error']}")
                seconds[way].append(row["start_s"])
        ratio = statistics.median(now / then for now, then in zip(seconds[this], seconds[other]))
        print(f"| {ranks} | {statistics.median(seconds[this]):.3f} s | "
              f"{statistics.median(seconds[other]):.3f} s | {ratio:.2f} |", flush=True)


def main() -> None:
    """Entry point."""
    options = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    options.add_argument("ranks", nargs="*", type=int, metavar="RANKS")
    options.add_argument("--compare", metavar="no-secret|NEZHA")
    options.add_argument("--turns", type=int, default=8)
    given = options.parse_args()
    if given.compare:
        compare(given.compare, given.turns, given.ranks or [4])
    else:
        show(given.ranks or [16, 64, 128])


if __name__ == "__main__":
    main()
