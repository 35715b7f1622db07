"""The program `nezha`. `nezha run` needs the core alone; other commands say which library they lack."""

from __future__ import annotations

import sys
from typing import List, Mapping, Sequence

from nezha import launcher
from nezha.launcher.command import Place, main as run

# The name that pip has for a library, by the name under which Python imports it.
_PACKAGES = {"click": "typer", "yaml": "pyyaml", "prometheus_client": "prometheus-client"}
_LIBRARIES = {"numpy", "typer", "rich", "pyroute2", "simpy", *_PACKAGES}


def _on_a_lab(name: str, count: int, command: Sequence[str],
              extra: Mapping[str, str]) -> List[launcher.Rank]:
    from .lab.ranks import in_lab

    return in_lab(name, count, command, extra)


_PLACES = [Place("--lab", "name of a lab that is up",
                 "nezha lab up --nodes 4 --rates 1gbit,500mbit; nezha run --lab default python train.py",
                 _on_a_lab)]


def main() -> None:
    """Entry point."""
    words = sys.argv[1:]
    try:
        if words[:1] == ["run"]:
            sys.exit(run(words[1:], _PLACES))
        from .commands import app

        app()
    except ModuleNotFoundError as error:
        library = (error.name or "").partition(".")[0]
        if library not in _LIBRARIES:
            raise
        sys.exit(f"nezha {' '.join(words[:1])}: Python's {library} is not installed; pip install "
                 f"{_PACKAGES.get(library, library)}, or install Nezha with its extras tools and "
                 "study, which have all that its commands need")
