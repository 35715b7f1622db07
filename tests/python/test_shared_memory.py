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


GROUPS = """
import json, numpy, nezha
comm = nezha.init()
part = comm.split(comm.rank % 2)
before = comm.stats()["memory_bytes_sent"]
total = part.all_reduce(numpy.full(1000, comm.rank, dtype=numpy.int64))
known = [entry["algorithm"] for entry in comm.flight()["operations"] if entry["comm"] != 0]
print(json.dumps({"rank": comm.rank, "total": int(total[999]), "algorithms": known,
                  "sent": comm.stats()["memory_bytes_sent"] - before}), flush=True)
part.close()
"""


ROOTS = """
import json, numpy, nezha
comm = nezha.init()
found = {}
for name in ("broadcast", "scatter", "gather", "reduce", "broadcast and gather"):
    part = comm.split(0 if comm.rank < 2 else None)
    if part is None:
        continue
    x, other = numpy.full(2, comm.rank, dtype=numpy.int64), 1 - comm.rank
    calls = {"broadcast": lambda: part.broadcast(x, comm.rank),
             "scatter": lambda: part.scatter(x, comm.rank, out=numpy.empty(1, dtype=numpy.int64)),
             "gather": lambda: part.gather(x, other), "reduce": lambda: part.reduce(x, other),
             "broadcast and gather": lambda: part.gather(x) if comm.rank else part.broadcast(x)}
    try:
        calls[name]()
        found[name] = "no error"
    except nezha.Mismatch as error:
        found[name] = str(error)
    part.close()
print(json.dumps({"rank": comm.rank, "found": found}), flush=True)
"""


def run(tmp_path: Path, shm: str, body: str = BODY) -> list:
    program = tmp_path / "program.py"
    program.write_text(body)
    asked = ["-x", f"NEZHA_SHM={shm}"] if shm else []
    done = subprocess.run([Path(sys.executable).parent / "nezha", "run", "-n", str(RANKS), *asked,
                           sys.executable, str(program)], timeout=120, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert done.returncode == 0, done.stdout + done.stderr
    reports = [json.loads(line[line.index("{"):]) for line in done.stdout.splitlines() if "{" in line]
    return sorted(reports, key=lambda report: report["rank"])


@pytest.mark.parametrize("shm", ["", "on"])
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


def test_a_part_of_the_ranks_works_in_memory(tmp_path: Path) -> None:
    reports = run(tmp_path, "on", GROUPS)
    assert [report["total"] for report in reports] == [2, 1, 2]
    assert [report["sent"] for report in reports] == [8000, 0, 8000]  # a rank alone needs none
    assert [report["algorithms"][-1] == "memory" for report in reports] == [True, False, True]


@pytest.mark.parametrize("shm", ["off", "on"])
def test_ranks_that_take_nothing_of_each_other_learn_that_they_disagree(tmp_path: Path,
                                                                        shm: str) -> None:
    for report in run(tmp_path, shm, ROOTS)[:2]:
        found = report["found"]
        assert len(found) == 5
        for name, said in found.items():
            wanted = "collective is" if " and " in name else "root is"
            assert wanted in said and "on rank 0" in said and "on rank 1" in said, (name, said)


def explain(*words: str) -> subprocess.CompletedProcess:
    return subprocess.run([Path(sys.executable).parent / "nezha", "explain", *words], timeout=60,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def test_what_runs_in_memory_is_explained_so() -> None:
    shared = ("-b", "1M", "-n", "4", "--ranks-per-host", "4")
    shown = explain("all_reduce", *shared)
    assert "4 ranks of one host: in its memory" in shown.stdout, shown.stderr
    assert "4 of up to 262144 bytes" in shown.stdout and "chosen: memory" in shown.stdout
    answer = json.loads(explain("all_gather", *shared, "--json").stdout)
    assert answer["offload"]["ranks"] == 4 and "over_adapters" in answer["offload"]
    assert (answer["algorithm"], answer["pieces"], answer["piece_bytes"]) == ("memory", 1, 262144)


@pytest.mark.parametrize("words", [
    ("all_reduce", "-n", "4", "--ranks-per-host", "2"),
    ("all_reduce", "-n", "4", "--ranks-per-host", "4", "--no-shm"),
    ("all_reduce", "-n", "4", "--ranks-per-host", "4", "--algorithm", "ring"),
    ("all_to_all_v", "-n", "4", "--ranks-per-host", "4"),
    ("all_reduce", "-n", "65", "--ranks-per-host", "65")])
def test_what_does_not_run_in_memory_is_not(words: tuple) -> None:
    answer = json.loads(explain(*words, "--json").stdout)
    assert answer["algorithm"] != "memory"


def test_operations_in_memory_have_no_steps_to_show() -> None:
    done = explain("all_reduce", "-n", "4", "--ranks-per-host", "4", "--schedule")
    assert done.returncode == 2 and "--algorithm" in done.stderr
