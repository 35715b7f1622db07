"""What the lab's tests share: skipping with a reason, and asking the kernel what is left."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from typing import Callable, Dict, List

import pytest

import wire_meter  # noqa: F401  (also finds nezha in the source tree)

import nezha.lab
from nezha_tools.lab import _layout, _state

# Under nohup or behind `&` these are ignored, and so they would be in every child.
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGHUP, signal.SIG_DFL)

PACKAGE_ROOT = os.path.abspath(os.path.join(os.path.dirname(nezha.lab.__file__), "..", ".."))


@pytest.fixture
def namespaces() -> None:
    """For tests that need networks of their own in this very process."""
    can = nezha.lab.capabilities()
    if not can.namespaces:
        pytest.skip(f"no namespaces: {can.reason}")


def left_behind(name: str) -> List[str]:
    """Everything that still exists of a lab."""
    found = [_layout.netns_path(name, role) for role in ("sw", "n0", "n1", "n2", "n3")]
    return [path for path in found + [_state.path_of(name)] if os.path.exists(path)]


def eventually(condition: Callable[[], bool], seconds: float = 20) -> bool:
    """Whether condition came true before a deadline that only a broken program reaches."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


def child_env() -> Dict[str, str]:
    """Environment in which a child finds the nezha under test."""
    path = os.pathsep.join(p for p in (PACKAGE_ROOT, os.environ.get("PYTHONPATH")) if p)
    return {**os.environ, "PYTHONPATH": path}


def start_python(code: str, **options: object) -> "subprocess.Popen[str]":
    """A Python child with text pipes that runs code."""
    return subprocess.Popen([sys.executable, "-c", code], env=child_env(), text=True,
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE, **options)


def nezha_lab(*arguments: str) -> "subprocess.CompletedProcess[str]":
    """Runs `nezha lab ...` to its end."""
    return subprocess.run([sys.executable, "-m", "nezha.lab", *arguments], env=child_env(),
                          text=True, capture_output=True, timeout=60)
