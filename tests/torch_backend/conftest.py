"""Ranks that live through the whole session: torch takes seconds to import, so they do it once."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
from multiprocessing.connection import Connection, Listener
from pathlib import Path
from typing import Any, Dict, Iterator, List

import pytest

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
WORLD = 3
_ANSWER_S = 240.0

collect_ignore_glob = [] if importlib.util.find_spec("torch") else ["test_*.py"]


def write_entry_points(directory: Path) -> None:
    """What pip writes of pyproject.toml's entry points, so that torch finds them uninstalled."""
    text = (ROOT / "pyproject.toml").read_text()
    sections = re.findall(r'\[project\.entry-points\."([^"]+)"\]\n((?:[^\[\n][^\n]*\n)+)', text)
    assert len(sections) == 2
    info = directory / "nezha_entry_points-0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: nezha-entry-points\nVersion: 0\n")
    (info / "entry_points.txt").write_text("".join(
        f"[{group}]\n" + body.replace('"', "") for group, body in sections))


class Ranks:
    """Processes that run the functions of cases_*.py together."""

    def __init__(self, world: int, directory: Path, environment: Dict[str, str]) -> None:
        self.world = world
        address = str(directory / "orders")
        self._processes: List[Any] = []
        self._pipes: Dict[int, Connection] = {}
        with Listener(address, family="AF_UNIX", backlog=world) as listener:
            for rank in range(world):
                command = [sys.executable, str(HERE / "rank.py"), str(rank), str(world),
                           str(directory / "store"), address]
                self._processes.append(subprocess.Popen(
                    command, env={**os.environ, **environment}))
            for _ in range(world):
                pipe = listener.accept()
                self._pipes[pipe.recv()] = pipe
        self._collect()

    def run(self, module: str, function: str, *args: Any) -> List[Any]:
        """The function's results, rank by rank; raises with what went wrong on each."""
        for pipe in self._pipes.values():
            pipe.send((module, function, args))
        return self._collect()

    def close(self) -> List[Any]:
        """Ends the processes in the ordinary way; their exit codes, None for those that hang."""
        for pipe in self._pipes.values():
            try:
                pipe.send(None)
            except OSError:
                pass
        codes: List[Any] = []
        for process in self._processes:
            try:
                codes.append(process.wait(60))
            except subprocess.TimeoutExpired:
                codes.append(None)
                process.kill()
        return codes

    def _collect(self) -> List[Any]:
        results: Dict[int, Any] = {}
        errors: Dict[int, str] = {}
        for rank, pipe in sorted(self._pipes.items()):
            try:
                succeeded, value = pipe.recv() if pipe.poll(_ANSWER_S) else (False, "hangs")
            except EOFError:
                succeeded, value = False, "died"
            (results if succeeded else errors)[rank] = value
        assert not errors, "\n".join(f"rank {rank}: {text}" for rank, text in errors.items())
        return [results[rank] for rank in range(self.world)]


@pytest.fixture(scope="session")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Dict[str, str]:
    """Under which torch finds the backend by itself, and the compiled part is not used."""
    directory = tmp_path_factory.mktemp("site")
    write_entry_points(directory)
    path = os.pathsep.join(filter(None, [str(directory), os.environ.get("PYTHONPATH", "")]))
    return {"PYTHONPATH": path, "NEZHA_TORCH_NATIVE": "0", "OMP_NUM_THREADS": "1"}


@pytest.fixture(scope="session")
def native_environment(environment: Dict[str, str]) -> Dict[str, str]:
    """The same with the compiled part, which is built here."""
    variables = {**environment, "NEZHA_TORCH_NATIVE": "1",
                 "XDG_CACHE_HOME": str(ROOT / "build" / "torch-cache")}
    path = os.pathsep.join([os.path.dirname(sys.executable), os.environ["PATH"]])
    built = subprocess.run([sys.executable, "-c", "import nezha.torch; nezha.torch.build_native()"],
                           capture_output=True, text=True, timeout=1200,
                           env={**os.environ, **variables, "PATH": path})
    assert built.returncode == 0, built.stderr
    return variables


@pytest.fixture(scope="session")
def ranks(environment: Dict[str, str],
          tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ranks]:
    """WORLD processes in which the default group is one of nezha."""
    running = Ranks(WORLD, tmp_path_factory.mktemp("ranks"), environment)
    yield running
    assert running.close() == [0] * WORLD
