"""The processes of a lab's aggregation nodes: `nezha aggregator`, where the plan says.

They carry the lab's name in their environment, as every process of a lab does, and end with it, however
it ends (teardown.py). What they say goes to files beside the lab's own.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from typing import Any, Dict, List, Sequence

from . import _aggregator_key, _aggregators, _process, _state
from ..cli.errors import LabError

_START_SECONDS = 30.0  # only a broken program needs so long


def start(lab: _state.LabState) -> List["subprocess.Popen[bytes]"]:
    """Starts those that do not run, and notes their pids in `lab`. Returns when all can be dialled.

    Raises LabError with a node's own words; what was started then ends with the lab.
    """
    started: List["subprocess.Popen[bytes]"] = []
    is_tree = len(lab.aggregators) > 1
    if is_tree:
        with open(_path(lab, "topology.json"), "w", encoding="utf-8") as file:
            json.dump(_aggregators.topology(lab), file, indent=1)
    for each in lab.aggregators:
        if is_alive(lab, each):
            continue
        command = [sys.executable, "-m", "nezha_tools.aggregator", "--listen", each.endpoint,
                   "--key-file", _aggregator_key.make(lab)]
        if each.device:
            command += ["--device", each.device]
        if is_tree:
            command += ["--topology", _path(lab, "topology.json"), "--name", each.name]
        child = _spawn(lab, each, command)
        each.pid = child.pid
        started.append(child)
        _await_ready(lab, each, child)
    return started


def _spawn(lab: _state.LabState, each: _state.AggregatorState,
           command: Sequence[str]) -> "subprocess.Popen[bytes]":
    root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    path = os.pathsep.join(part for part in (root, os.environ.get("PYTHONPATH")) if part)
    env = {**os.environ, "PYTHONPATH": path, "NEZHA_LAB": lab.name}
    enter = _process.entry(each.netns, lab.holder, own_sysfs=False) if each.netns else None
    with open(log_path(lab, each), "wb") as log:
        try:
            return subprocess.Popen(command, env=env, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                    start_new_session=True, preexec_fn=enter, cwd="/")
        except (OSError, subprocess.SubprocessError) as error:
            raise LabError(f"aggregation node {each.name!r}: {error}") from error


def _await_ready(lab: _state.LabState, each: _state.AggregatorState,
                 child: "subprocess.Popen[bytes]") -> None:
    deadline = time.monotonic() + _START_SECONDS
    while time.monotonic() < deadline:
        text = log_of(lab, each)
        if "listening on" in text:
            return
        if child.poll() is not None:
            raise LabError(f"aggregation node {each.name!r} ended at once: "
                           f"{text.strip() or child.returncode}")
        time.sleep(0.01)
    raise LabError(f"aggregation node {each.name!r} did not start within {_START_SECONDS:.0f} s")


def is_alive(lab: _state.LabState, each: _state.AggregatorState) -> bool:
    """Whether its process runs; a pid that now belongs to somebody else is none."""
    if not each.pid:
        return False
    try:
        with open(f"/proc/{each.pid}/environ", "rb") as file:
            return f"NEZHA_LAB={lab.name}".encode() in file.read().split(b"\0")
    except OSError:
        return False


def kill(lab: _state.LabState, name: str, number: int = signal.SIGKILL) -> None:
    """Sends a signal to one. Raises LabError where there is none of that name that runs."""
    found = next((each for each in lab.aggregators if each.name == name), None)
    if found is None or not is_alive(lab, found):
        known = ", ".join(each.name for each in lab.aggregators if is_alive(lab, each)) or "none"
        raise LabError(f"lab {lab.name!r} has no aggregation node {name!r} that runs (running: {known})")
    os.kill(found.pid, number)


def log_path(lab: _state.LabState, each: _state.AggregatorState) -> str:
    """Where it writes what happens."""
    return _path(lab, f"{each.name}.log")


def log_of(lab: _state.LabState, each: _state.AggregatorState) -> str:
    """What it wrote so far."""
    try:
        with open(log_path(lab, each), encoding="utf-8", errors="replace") as file:
            return file.read(1 << 20)
    except OSError:
        return ""


def _path(lab: _state.LabState, what: str) -> str:
    return _state.path_of(lab.name)[:-len("json")] + "agg." + what


def forget(lab: _state.LabState) -> None:
    """Removes their files."""
    _aggregator_key.forget(lab)
    for path in [_path(lab, "topology.json")] + [log_path(lab, each) for each in lab.aggregators]:
        with contextlib.suppress(OSError):  # it was never written, or somebody else was quicker
            os.unlink(path)


def status(lab: _state.LabState) -> List[Dict[str, Any]]:
    """What status() says of them."""
    return [{"name": each.name, "rail": each.rail, "address": each.endpoint, "parent": each.parent,
             "serves": each.serves, "netns": each.netns, "pid": each.pid, "alive": is_alive(lab, each)}
            for each in lab.aggregators]
