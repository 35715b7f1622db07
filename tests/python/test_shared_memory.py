"""Collectives in the memory of one host, from Python: ranks are processes, as memory is between such."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

RANKS = 3

BODY = """
import json, numpy, nezha
comm = nezha.init()
n, rank = comm.world_size, comm.rank
wrong = []

def check(what, found, wanted):
    if not numpy.array_equal(found, wanted):
        wrong.append(what)

def of(rank, count):
    return numpy.arange(count, dtype=numpy.int64) * n + rank

for count in (1, 300, 300_000):
    total = sum(of(r, count) for r in range(n))
    out = numpy.empty_like(total)
    comm.all_reduce(of(rank, count), out=out)
    check("all_reduce", out, total)
    later = numpy.empty_like(total)
    comm.all_reduce(of(rank, count), out=later, async_op=True).wait()
    check("async", later, total)
    root = count % n
    reduced = numpy.zeros(count, dtype=numpy.int64)
    comm.reduce(of(rank, count), root=root, out=reduced if rank == root else None)
    check("reduce", reduced, total if rank == root else 0 * total)
    told = of(rank, count)
    comm.broadcast(told, root=root)
    check("broadcast", told, of(root, count))
    every = numpy.empty(n * count, dtype=numpy.int64)
    comm.all_gather(of(rank, count), out=every)
    check("all_gather", every, numpy.concatenate([of(r, count) for r in range(n)]))
    comm.reduce_scatter(numpy.concatenate([of(rank, count)] * n), out=out)
    check("reduce_scatter", out, total)
    comm.barrier()
stats = comm.stats()
print(json.dumps({"rank": rank, "wrong": wrong, "ranks": stats["memory_ranks"],
                  "sent": stats["memory_bytes_sent"], "received": stats["memory_bytes_received"]}),
      flush=True)
"""


def run(tmp_path: Path, shm: str) -> list:
    program = tmp_path / "program.py"
    program.write_text(BODY)
    done = subprocess.run([Path(sys.executable).parent / "nezha", "run", "-n", str(RANKS), "-x",
                           f"NEZHA_SHM={shm}", sys.executable, str(program)], timeout=120,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    reports = [json.loads(line[line.index("{"):]) for line in done.stdout.splitlines() if "{" in line]
    return sorted(reports, key=lambda report: report["rank"])


@pytest.mark.parametrize("shm", ["auto", "on"])
def test_collectives_are_right_and_counted(tmp_path: Path, shm: str) -> None:
    reports = run(tmp_path, shm)
    assert [report["rank"] for report in reports] == list(range(RANKS))
    for report in reports:
        assert report["wrong"] == []
        assert report["ranks"] == RANKS
        assert report["sent"] > 8 * 300_000 and report["received"] > 8 * 300_000


def test_without_it_nothing_is_in_memory(tmp_path: Path) -> None:
    for report in run(tmp_path, "off"):
        assert report["wrong"] == []
        assert (report["ranks"], report["sent"], report["received"]) == (0, 0, 0)
