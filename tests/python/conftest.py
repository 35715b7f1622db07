"""Ranks that are threads of this process, meeting in a hash:// store."""

from __future__ import annotations

import itertools
import os
import signal
import threading
from typing import Any, Callable, Dict, List

import pytest

# Under nohup or behind `&` these are ignored, and so they would be in every child.
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGHUP, signal.SIG_DFL)

_names = itertools.count()
_JOIN_SECONDS = 60.0
_PREFIXES = ("SLURM_", "OMPI_", "PMI_", "PMIX_", "TORCHELASTIC_", "NEZHA_")
_NAMES = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT")


@pytest.fixture(autouse=True)
def no_launcher(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tests see no launcher's variables but those they set themselves."""
    for name in list(os.environ):
        if name.startswith(_PREFIXES) or name in _NAMES:
            monkeypatch.delenv(name)


@pytest.fixture
def loopback(no_launcher: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """For tests of rails: ranks of this host talk over its rails, and share no memory."""
    monkeypatch.setenv("NEZHA_SHM", "off")


def run_threads(count: int, body: Callable[[int], Any]) -> List[Any]:
    """body(rank) in `count` threads at once; their results, or the first exception."""
    results: Dict[int, Any] = {}
    errors: Dict[int, BaseException] = {}

    def run(rank: int) -> None:
        try:
            results[rank] = body(rank)
        except BaseException as error:  # re-raised below
            errors[rank] = error

    threads = [threading.Thread(target=run, args=(rank,), daemon=True) for rank in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(_JOIN_SECONDS)
    if errors:
        raise errors[min(errors)]
    assert len(results) == count, f"ranks {sorted(set(range(count)) - set(results))} hang"
    return [results[rank] for rank in range(count)]


@pytest.fixture
def world() -> Callable[..., List[Any]]:
    """world(count, body, **init_options): body(comm) on `count` connected ranks."""
    import nezha

    def run(count: int, body: Callable[[Any], Any], **options: Any) -> List[Any]:
        options.setdefault("store", f"hash://test-{os.getpid()}-{next(_names)}")
        options.setdefault("timeout", 30.0)

        def rank_body(rank: int) -> Any:
            with nezha.init(rank, count, **options) as comm:
                return body(comm)

        return run_threads(count, rank_body)

    return run
