#!/usr/bin/env python3
"""Short all_reduces beside their floor, in one lab, in turns; and what one of them makes the machine do.

    .venv/bin/python bench/short_path.py [--nodes 4] [--rates 1gbit] [--bytes 4 1024] [--launches 5]
    .venv/bin/python bench/short_path.py --counts [--spin-us 0]
    .venv/bin/python bench/short_path.py --calls blocking many torch-many [--counts]

The floor (bench/floor.cc) is recursive doubling over plain TCP. All are called in a loop on every node,
Nezha from Python with a NumPy array; a launch's figure is the time of the loop divided by its operations,
as `nezha bench` has it, and a column is the median of the launches. Each node keeps to its part of the
machine's processors, as in `nezha bench`.

--calls: how Nezha is called. blocking; wait: asynchronously, and waited for at once; many: 64
asynchronously, then waited for in order, of which a figure is the 64th part; the same with `torch-`
through torch.distributed, with its compiled part where that was built (nezha.torch.build_native).

--counts prints what a busy machine changes little: per operation and rank, the system calls and context
switches (`perf stat`), and for rank 0 of Nezha instructions of the process itself, readings of the clock,
locks and allocations (valgrind's callgrind), each the difference of a long run and a short one; what is
not installed is left out. Frames are counted by the library. With --spin-us 0 nobody polls, so that
waiting costs one system call.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Callable, Dict, List, Sequence

from nezha_tools.bench.cores import allowed, children_on, processors_of
from nezha.lab import Lab

HERE = Path(__file__).resolve().parent
WARM_UP = 200
MANY = 64
FLOOR = "floor"
CALLS = ("blocking", "wait", "many", "torch-blocking", "torch-wait", "torch-many")
EVENTS = {"raw_syscalls:sys_enter": "system calls", "context-switches": "context switches"}
# What callgrind calls them.
COUNTED = {"clock readings": r"clock_gettime", "locks": r"pthread_mutex_(try)?lock",
         "allocations": r"malloc"}
# What the library counts itself.
REPORTED = ("frames_sent", "acks_sent", "send_calls", "receive_calls", "polls", "sleeps", "handovers")


def caller(comm: Any, call: str) -> Callable[[Any], None]:
    """A call as CALLS names it, on one array: one operation, or MANY."""
    start: Callable[..., Any] = comm.all_reduce
    if call.startswith("torch-"):
        import torch
        import torch.distributed as dist

        def start(x: Any, async_op: bool = False) -> Any:
            return dist.all_reduce(torch.from_numpy(x), async_op=async_op)

    def many(x: Any) -> None:
        for work in [start(x[i], async_op=True) for i in range(MANY)]:
            work.wait()

    kind = call.rpartition("-")[2]
    if kind == "many":
        return many
    return start if kind == "blocking" else lambda x: start(x, async_op=True).wait()


def joined(call: str) -> Any:
    """The job's Communicator, by way of torch where the call is."""
    import nezha

    if not call.startswith("torch-"):
        return nezha.init()
    import torch.distributed as dist

    from nezha.torch import communicator, register

    register.register_backend()
    dist.init_process_group("nezha")
    return communicator()


def run_rank(call: str, count: int, sizes: Sequence[int]) -> None:
    """One rank of Nezha: a line of JSON for each size, as the floor prints them."""
    import numpy as np

    with joined(call) as comm:
        run = caller(comm, call)
        at_once = MANY if call.endswith("many") else 1
        count = max(count // at_once, 1)
        for size in sizes:
            # Of many, each has an array of its own.
            x = np.full((at_once, size // 4) if at_once > 1 else size // 4, comm.rank + 1, np.float32)
            for _ in range(max(WARM_UP // at_once, 2)):
                x.fill(comm.rank + 1)
                run(x)
                assert (x == comm.world_size * (comm.world_size + 1) // 2).all()
            x.fill(0)
            stamps = [0] * (count + 1)
            before, used = comm.stats(), time.process_time()
            stamps[0] = time.perf_counter_ns()
            for i in range(1, count + 1):
                run(x)
                stamps[i] = time.perf_counter_ns()
            used, after = time.process_time() - used, comm.stats()
            times = np.diff(stamps) / 1e3 / at_once
            operations = count * at_once
            line = {"bytes": size, "mean_us": float(np.mean(times)),
                    "p99_us": float(np.percentile(times, 99)), "processor_us": used / operations * 1e6}
            for key in REPORTED:
                line[key] = (after[key] - before[key]) / operations
            print(json.dumps(line), flush=True)


class Bench:
    """A lab, and all subjects ready to run in it."""

    def __init__(self, lab: Lab, scratch: Path, spin_us: float) -> None:
        self.lab, self.scratch, self.spin_us = lab, scratch, spin_us
        self.floor = scratch / "floor"
        subprocess.run(["c++", "-std=c++20", "-O2", str(HERE / "floor.cc"), "-o", str(self.floor)],
                       check=True)

    def run(self, subject: str, count: int, sizes: Sequence[int], wrap: Any = None) -> List[List[Dict]]:
        """The lines of every rank. wrap(rank): what stands before the rank's command."""
        words = [str(size) for size in sizes]
        nodes = self.lab.status()["nodes"]
        addresses = ",".join(node["ports"][0]["address"].partition("/")[0] for node in nodes)
        ranks = []
        for rank in range(len(nodes)):
            command = [sys.executable, __file__, "--rank", "--calls", subject, "--count", str(count),
                       "--bytes", *words]
            if subject == FLOOR:
                command = [str(self.floor), str(rank), addresses, str(count), str(self.spin_us), *words]
            # Under valgrind a rank is late.
            env = {**self.lab.rank_env(rank), "NEZHA_SPIN_US": f"{self.spin_us:g}",
                   "NEZHA_CONNECT_TIMEOUT_S": "300"}
            with children_on(processors_of(rank, len(nodes), allowed())):
                ranks.append(self.lab.popen(rank, [*(wrap(rank) if wrap else []), *command], env=env,
                                            stdout=subprocess.PIPE, text=True))
        texts = [rank.communicate()[0] for rank in ranks]
        if any(rank.returncode for rank in ranks):
            raise SystemExit(f"{subject} failed")
        return [[json.loads(line) for line in text.splitlines()] for text in texts]

    def counted(self, subject: str, count: int, size: int) -> Dict[str, float]:
        """Events of `count` operations, and the run around them, of all ranks together."""
        def files(rank: int) -> Path:
            return self.scratch / f"perf-{rank}"

        self.run(subject, count, [size], lambda rank: [
            "perf", "stat", "-x,", "-e", ",".join(EVENTS), "-o", str(files(rank))])
        found = dict.fromkeys(EVENTS.values(), 0.0)
        for rank in range(len(self.lab)):
            for line in files(rank).read_text().splitlines():
                value, _, rest = line.partition(",")
                for event, name in EVENTS.items():
                    if event in rest:
                        found[name] += float(value) / len(self.lab)
        return found

    def profiled(self, subject: str, count: int, size: int) -> Dict[str, float]:
        """Instructions and calls of rank 0 of Nezha, start and end included."""
        out = self.scratch / "callgrind"
        self.run(subject, count, [size], lambda rank: [] if rank else [
            "valgrind", "--tool=callgrind", "--log-file=/dev/null", f"--callgrind-out-file={out}"])
        return read_callgrind(out.read_text())


def read_callgrind(text: str) -> Dict[str, float]:
    """Instructions, and how often the functions of COUNTED were called."""
    found = dict.fromkeys(COUNTED, 0.0)
    names: Dict[str, str] = {}
    callee = ""
    for line in text.splitlines():
        if line.startswith(("fn=", "cfn=")):
            number, _, name = line.partition("=")[2].partition(" ")
            callee = names.setdefault(number, name)
        elif line.startswith("calls="):
            for what, pattern in COUNTED.items():
                if re.match(pattern, callee):
                    found[what] += int(line[6:].split()[0])
        elif line.startswith(("summary:", "totals:")):
            found["instructions"] = float(line.split()[1])
    return found


def per_operation(measure: Any, short: int) -> Dict[str, float]:
    """What an operation adds to measure(count): the slope between `short` and three times as many."""
    few, many = measure(short), measure(3 * short)
    return {name: (many[name] - few[name]) / (2 * short) for name in few}


def print_times(bench: Bench, subjects: Sequence[str], count: int, sizes: Sequence[int],
                launches: int) -> None:
    """All subjects in turns; a row for each size and subject."""
    keys = ("mean_us", "p99_us", "processor_us")
    seen: Dict[Any, List[float]] = {}
    for _ in range(launches):
        for subject in subjects:
            ranks = bench.run(subject, count, sizes)
            for index, size in enumerate(sizes):
                for key in keys:
                    value = max(rank[index][key] for rank in ranks)
                    seen.setdefault((subject, size, key), []).append(value)
    print(f"{'bytes':>7} {'call':14} {'us':>8} {'of floor':>8} {'p99 us':>8} {'processor us':>12}")
    for size in sizes:
        floor = statistics.median(seen[FLOOR, size, "mean_us"])
        for subject in subjects:
            mean, p99, processor = (statistics.median(seen[subject, size, key]) for key in keys)
            print(f"{size:7} {subject:14} {mean:8.1f} {mean / floor:8.2f} {p99:8.1f} {processor:12.1f}")


def print_counts(bench: Bench, subjects: Sequence[str], count: int, size: int) -> None:
    """A row for each thing that is counted, a column for each subject."""
    columns = {subject: counts_of(bench, subject, count, size) for subject in subjects}
    print(f"{f'{size} B, per operation and rank':30} " + " ".join(f"{name:>14}" for name in columns))
    for name in dict.fromkeys(name for column in columns.values() for name in column):
        print(f"{name:30} " + " ".join(
            f"{column[name]:14.2f}" if name in column else f"{'':14}" for column in columns.values()))


def counts_of(bench: Bench, subject: str, count: int, size: int) -> Dict[str, float]:
    """What is counted of one subject."""
    found: Dict[str, float] = {}
    if shutil.which("perf"):
        found = per_operation(lambda n: bench.counted(subject, n, size), count)
    if subject == FLOOR:
        return found
    ranks = [rank[0] for rank in bench.run(subject, count, [size])]
    found.update({key: statistics.mean(rank[key] for rank in ranks) for key in REPORTED})
    if shutil.which("valgrind"):
        for name, value in per_operation(lambda n: bench.profiled(subject, n, size),
                                         max(count // 10, 4 * MANY)).items():
            found[f"{name}, rank 0"] = value
    return found


def main() -> None:
    """Builds the lab, runs what was asked for."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--nodes", type=int, default=4, help="a power of two")
    parser.add_argument("--rates", default="1gbit", help="of the rails; the floor uses the first")
    parser.add_argument("--bytes", type=int, nargs="+", default=[4, 1024, 16384])
    parser.add_argument("--count", type=int, default=4000, help="operations a size")
    parser.add_argument("--launches", type=int, default=5)
    parser.add_argument("--spin-us", type=float, default=50)
    parser.add_argument("--calls", nargs="+", choices=CALLS, default=["blocking"])
    parser.add_argument("--counts", action="store_true")
    parser.add_argument("--rank", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.rank:
        return run_rank(given.calls[0], given.count, given.bytes)
    lab = Lab(nodes=given.nodes, rails=given.rates.split(","))
    with lab, tempfile.TemporaryDirectory(prefix="nezha-short-") as scratch:
        bench = Bench(lab, Path(scratch), given.spin_us)
        subjects = [*given.calls, FLOOR]
        if given.counts:
            for size in given.bytes:
                print_counts(bench, subjects, given.count, size)
        else:
            print_times(bench, subjects, given.count, given.bytes, given.launches)


if __name__ == "__main__":
    main()
