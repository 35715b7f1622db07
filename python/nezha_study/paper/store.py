"""The folder that keeps measurements, so that none is made twice: a JSON file for each job.

Whoever owns the folder may delete files to have their jobs measured again. Not for two processes at once.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Dict, Optional, Sequence

from nezha.files import explained, whole_file
from nezha_tools.cli.errors import BenchError
from .jobs import Job, Settings

VERSION = 1
_MACHINE = "machine"


class Store:
    """Measurements by job. Every method raises BenchError with what the user can do."""

    def __init__(self, folder: Path) -> None:
        """folder: need not exist."""
        self.folder = folder / "measurements"

    def machine(self) -> Optional[Dict[str, Any]]:
        """What save_machine() kept; None where nothing is."""
        return self._read(_MACHINE)

    def save_machine(self, machine: Dict[str, Any]) -> None:
        """Keeps the settings of the folder, and what is to be said of this machine."""
        self._write(_MACHINE, machine)

    def load(self, job: Job, settings: Settings) -> Optional[Dict[str, Any]]:
        """What was measured; None where nothing is. Other settings than `settings` are refused."""
        found = self._read(job.key)
        if found is None:
            return None
        if found.get("settings") != settings.as_dict():
            raise BenchError(f"{self._path(job.key)} was measured with {_said(found.get('settings'))}, "
                             f"and not with {_said(settings.as_dict())}: add --fresh, or name another "
                             "--out")
        result: Dict[str, Any] = found["result"]
        return result

    def has(self, job: Job, settings: Settings) -> bool:
        """Whether load() has a result."""
        found = self._read(job.key)
        return found is not None and found.get("settings") == settings.as_dict()

    def save(self, job: Job, settings: Settings, seconds: float, result: Dict[str, Any]) -> None:
        """Keeps a result. seconds: that it took."""
        self._write(job.key, {"settings": settings.as_dict(), "seconds": seconds, "result": result})

    def forget(self, jobs: Sequence[Job]) -> None:
        """Deletes the measurements of these jobs, and the folder's settings."""
        for name in (_MACHINE, *(job.key for job in jobs)):
            try:
                self._path(name).unlink()
            except FileNotFoundError:
                continue
            except OSError as error:
                raise BenchError(f"cannot delete {self._path(name)}: {explained(error)}") from error

    def _path(self, name: str) -> Path:
        return self.folder / f"{name}.json"

    def _read(self, name: str) -> Optional[Dict[str, Any]]:
        path = self._path(name)
        try:
            found = json.loads(path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return None
        except OSError as error:
            raise BenchError(f"cannot read {path}: {explained(error)}") from error
        except ValueError:
            found = None
        if not isinstance(found, dict) or found.get("version") != VERSION:
            raise BenchError(f"{path} is no measurement of this version: delete it, or add --fresh")
        return found

    def _write(self, name: str, content: Dict[str, Any]) -> None:
        path = self._path(name)
        try:
            with whole_file(path) as place:
                place.write_text(json.dumps({"version": VERSION, **content}, indent=1) + "\n",
                                 encoding="utf-8")
        except OSError as error:
            raise BenchError(f"cannot write {path}: {explained(error)}") from error


def _said(settings: Any) -> str:
    if not isinstance(settings, dict):
        return "settings that are not known"
    return ", ".join(f"{name} {value:g}" for name, value in settings.items())
