"""Ranks that live through the whole session: torch takes seconds to import, so they do it once."""

from __future__ import annotations

import multiprocessing
import os
import re
import sys
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Dict, Iterator, List

import pytest

torch = pytest.importorskip("torch")

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
WORLD = 3
_ANSWER_S = 120.0


def write_entry_points(directory: Path) -> None:
    """What pip writes of pyproject.toml's entry points, so that torch finds them uninstalled."""
    text = (ROOT / "pyproject.toml").read_text()
    sections = re.findall(r'\[project\.entry-points\."([^"]+)"\]\n((?:[^\[\n][^\n]*\n)+)', text)
    info = directory / "nezha_entry_points-0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: nezha-entry-points\nVersion: 0\n")
    (info / "entry_points.txt").write_text("".join(
        f"[{group}]\n" + body.replace('"', "") for group, body in sections))


class Ranks:
    """Processes that run the functions of cases_*.py together."""

    def __init__(self, world: int, meeting: Path, **environment: str) -> None:
        self.world = world
        context = multiprocessing.get_context("spawn")
        self._pipes: List[Connection] = []
        self._processes: List[Any] = []
        before = dict(os.environ)
        os.environ.update(environment)
        try:
            for rank in range(world):
                ours, theirs = context.Pipe()
                process = context.Process(target=serve, args=(rank, world, str(meeting), theirs),
                                          daemon=True)
                process.start()
                theirs.close()
                self._pipes.append(ours)
                self._processes.append(process)
        finally:
            os.environ.clear()
            os.environ.update(before)

    def run(self, module: str, function: str, *args: Any) -> List[Any]:
        """The function's results, rank by rank; raises with what went wrong on each."""
        for pipe in self._pipes:
            pipe.send((module, function, args))
        results: Dict[int, Any] = {}
        errors: Dict[int, str] = {}
        for rank, pipe in enumerate(self._pipes):
            if not pipe.poll(_ANSWER_S):
                errors[rank] = "hangs"
                continue
            try:
                succeeded, value = pipe.recv()
            except EOFError:
                succeeded, value = False, "died"
            (results if succeeded else errors)[rank] = value
        assert not errors, "\n".join(f"rank {rank}: {text}" for rank, text in errors.items())
        return [results[rank] for rank in range(self.world)]

    def close(self) -> List[Any]:
        """Ends the processes in the ordinary way; their exit codes."""
        for pipe in self._pipes:
            try:
                pipe.send(None)
            except OSError:
                pass
        for process in self._processes:
            process.join(30)
            if process.is_alive():
                process.kill()
        return [process.exitcode for process in self._processes]


def serve(rank: int, world: int, meeting: str, pipe: Connection) -> None:
    """The life of one rank."""
    import importlib
    import traceback

    sys.path[:0] = [str(HERE)]
    import torch.distributed as dist

    torch.set_num_threads(1)
    store = dist.FileStore(meeting, world)
    dist.init_process_group("nezha", store=store, rank=rank, world_size=world)
    while True:
        order = pipe.recv()
        if order is None:
            break
        module, function, args = order
        try:
            value = getattr(importlib.import_module(module), function)(*args)
            pipe.send((True, value))
        except BaseException:
            pipe.send((False, traceback.format_exc()))
    dist.destroy_process_group()


@pytest.fixture(scope="session")
def entry_points(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A PYTHONPATH under which torch finds the backend by itself."""
    directory = tmp_path_factory.mktemp("site")
    write_entry_points(directory)
    return os.pathsep.join(filter(None, [str(directory), os.environ.get("PYTHONPATH", "")]))


@pytest.fixture(scope="session")
def ranks(entry_points: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ranks]:
    """WORLD processes in which the default group is one of nezha, without the compiled part."""
    meeting = tmp_path_factory.mktemp("meeting") / "store"
    running = Ranks(WORLD, meeting, PYTHONPATH=entry_points, NEZHA_TORCH_NATIVE="0",
                    OMP_NUM_THREADS="1")
    yield running
    running.close()
