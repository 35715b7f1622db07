"""Where somebody else could read a job's secret, while it runs and afterwards: memory that a core dump
would have, command lines, environments, a store that outlives the job, logs, dumps, a node's figures."""

from __future__ import annotations

import json
import os
import re
import secrets
import subprocess
import sys
import time
from pathlib import Path
from typing import Iterator, List

import pytest

from nezha import _native
from nezha_tools.aggregator import metrics

PATIENCE_S = 60.0
_RANKS = 2

_PROGRAM = """
import os, sys
import nezha

rank, folder = int(os.environ["RANK"]), sys.argv[1]
with nezha.init(rank, 2, f"file://{folder}/store", timeout=30) as comm:
    assert comm.all_reduce(bytearray([1]))[0] == 2
    comm.dump_flight(f"{folder}/flight-{rank}.json")
    with open(f"{folder}/stats-{rank}.json", "w") as file:
        file.write(str(comm.stats()) + str(comm.describe("config")))
    assert comm.stats()["authentication"] == "secret"
    print("READY", os.getpid(), flush=True)
    sys.stdin.readline()
print("OVER", flush=True)
sys.stdin.readline()
"""


def dumped_memory(process: int) -> Iterator[bytes]:
    """The parts of a process that a core dump of it has (proc(5): "dd" stands for not dumped)."""
    mapping = re.compile(r"([0-9a-f]+)-([0-9a-f]+) r")
    place = None
    with open(f"/proc/{process}/smaps", encoding="ascii") as maps, \
            open(f"/proc/{process}/mem", "rb", buffering=0) as memory:
        for line in maps:
            found = mapping.match(line)
            if found:
                place = (int(found[1], 16), int(found[2], 16)) if "[v" not in line else None
            elif line.startswith("VmFlags:") and place and " dd" not in line:
                memory.seek(place[0])
                try:
                    yield memory.read(place[1] - place[0])
                except OSError:  # of a device, or gone meanwhile
                    continue


def places_of(process: int, word: bytes) -> List[str]:
    """Where a process shows the word to who may look at it or gets its core dump."""
    found = [name for name in ("cmdline", "environ")
             if word in Path(f"/proc/{process}/{name}").read_bytes()]
    looked_at = 0
    for part in dumped_memory(process):
        looked_at += len(part)
        if word in part:
            found.append("memory")
    assert looked_at > 1 << 20, "nearly nothing was looked at"
    return found


def files_with(folder: Path, word: bytes) -> List[str]:
    """Files below the folder that have the word in them."""
    return [str(path) for path in folder.rglob("*") if path.is_file() and word in path.read_bytes()]


class Job:
    """Two processes with a secret from a file; what they write is below `folder`."""

    def __init__(self, folder: Path, variables: dict) -> None:
        self.folder = folder
        self.ranks: List[subprocess.Popen] = []
        self._variables = variables

    def start_rank(self) -> None:
        variables = {"RANK": str(len(self.ranks)), "NEZHA_RAILS": "127.1.0.1/32",
                     "NEZHA_LOG_LEVEL": "trace", "NEZHA_LOG_FILE": f"{self.folder}/%p.log"}
        self.ranks.append(subprocess.Popen(
            [sys.executable, "-c", _PROGRAM, str(self.folder)], stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, text=True, env={**os.environ, **variables, **self._variables}))

    def meet(self) -> bytes:
        """Starts the ranks; what rank 0 had said in the store before the other one came."""
        self.start_rank()
        deadline = time.monotonic() + PATIENCE_S
        while not list((self.folder / "store").glob("*join*")):
            assert time.monotonic() < deadline
            time.sleep(0.01)
        said = b"".join(path.read_bytes() for path in (self.folder / "store").glob("nezha*"))
        self.start_rank()
        self.hear("READY")
        return said

    def hear(self, word: str) -> None:
        for rank in self.ranks:
            assert rank.stdout.readline().startswith(word)

    def go_on(self) -> None:
        for rank in self.ranks:
            rank.stdin.write("\n")
            rank.stdin.flush()

    def close(self) -> None:
        for rank in self.ranks:
            rank.kill()
            rank.communicate()


@pytest.fixture(name="word")
def secret_word() -> str:
    return secrets.token_hex(32)


@pytest.fixture(name="start")
def start_job(tmp_path):
    jobs: List[Job] = []

    def start(**variables: str) -> Job:
        folder = tmp_path / "written"
        folder.mkdir()
        jobs.append(Job(folder, variables))
        return jobs[-1]

    yield start
    for job in jobs:
        job.close()


def forms_of(word: str) -> List[bytes]:
    """Its text, and what it stands for."""
    return [word.encode(), word.upper().encode(), bytes.fromhex(word)]


def test_a_secret_from_a_file_is_shown_nowhere(word, start, tmp_path):
    path = tmp_path / "secret"
    path.write_text(word + "\n")
    path.chmod(0o600)
    job = start(NEZHA_SECRET_FILE=str(path))
    said = job.meet()
    assert len(said) > 100 and not any(form in said for form in forms_of(word))
    for rank in job.ranks:
        assert places_of(rank.pid, word.encode()) == []
        assert places_of(rank.pid, str(path).encode()) != []  # the control: its name is there
    shown = [form for form in forms_of(word) if files_with(job.folder, form)]
    job.go_on()
    job.hear("OVER")
    for rank in job.ranks:
        assert places_of(rank.pid, word.encode()) == []
    job.go_on()
    assert [rank.wait(PATIENCE_S) for rank in job.ranks] == [0] * _RANKS
    assert shown == [] and [form for form in forms_of(word) if files_with(job.folder, form)] == []
    for pattern in ("*.log", "flight-*.json", "stats-*.json"):
        assert [path.stat().st_size > 100 for path in job.folder.glob(pattern)] == [True] * _RANKS


def test_a_secret_in_the_environment_stays_there(word, start):
    """The control of the test above, and what the library cannot help (docs/security.md)."""
    job = start(NEZHA_SECRET=word)
    job.meet()
    for rank in job.ranks:
        assert {"environ", "memory"} <= set(places_of(rank.pid, word.encode()))
        assert "cmdline" not in places_of(rank.pid, word.encode())
    assert [form for form in forms_of(word) if files_with(job.folder, form)] == []


def test_the_figures_of_a_node_show_no_key(word, tmp_path):
    prometheus = pytest.importorskip("prometheus_client")
    path = tmp_path / "key"
    path.write_text(word + "\n")
    path.chmod(0o600)
    answer = json.loads(_native.query("job_key", json.dumps({"key_file": str(path), "job": "7"})))
    number, _, job_key = answer["job_key"].partition(":")
    node = _native.Aggregator("127.0.0.1", 0, None, str(path), 1, 0, 0, 0, 0, None, None)
    try:
        registry = prometheus.CollectorRegistry()
        registry.register(metrics.Collector(lambda: json.loads(node.stats()), {"name": "node"}))
        shown = prometheus.generate_latest(registry).decode() + node.stats()
    finally:
        node.close()
    assert len(job_key) == 64 and len(number) == 16 and "nezha_aggregator_jobs" in shown
    assert word not in shown and job_key not in shown
