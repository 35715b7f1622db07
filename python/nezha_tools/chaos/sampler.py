"""Reads how many bytes each rail of a lab has delivered to its nodes, many times a second.

A process of its own, so that neither the report's nor the user's work makes it late:

    python -m nezha_tools.chaos.sampler LAB INTERVAL_MS

prints one line a sample, "TIME LEAST BYTES BYTES ...": CLOCK_MONOTONIC in seconds; what the node that
has sent least has sent, all rails together; and, by rail, bytes that came out of the switch towards
all nodes. It ends when nobody reads it any more.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import threading
import time
from typing import Dict, Tuple

from ..lab import _kernel, _state, _userns
from .throughput import Timeline


def _bytes_by_device() -> Dict[str, Tuple[int, int]]:
    """(received, transmitted) of every device in the calling thread's network namespace."""
    with open("/proc/thread-self/net/dev", encoding="ascii") as file:
        rows = [line.split(":", 1) for line in file if ":" in line]
    return {name.strip(): (int(numbers.split()[0]), int(numbers.split()[8]))
            for name, numbers in rows}


def _print_samples(lab: _state.LabState, interval_s: float) -> None:
    of_node = [[port.switch_port for port in node.ports] for node in lab.nodes]
    of_rail = [[port.switch_port for node in lab.nodes for port in node.ports if port.rail == rail]
               for rail in range(len(lab.rail_rates))]
    due = time.monotonic()
    while True:
        counts = _bytes_by_device()
        least = min(sum(counts[name][0] for name in names) for names in of_node)
        delivered = [sum(counts[name][1] for name in names) for names in of_rail]
        print(f"{time.monotonic():.6f}", least, *delivered, flush=True)
        due = max(due + interval_s, time.monotonic())
        time.sleep(max(0.0, due - time.monotonic()))


def main() -> None:
    """Entry point."""
    lab = _state.load(sys.argv[1])
    if lab.holder:
        _userns.join(lab.holder)
    with contextlib.suppress(BrokenPipeError, FileNotFoundError):  # the reader, or the lab, is gone
        _kernel.in_netns(lab.switch, lambda: _print_samples(lab, int(sys.argv[2]) / 1000))
    os._exit(0)  # what is left in stdout has no reader


class Sampler:
    """The process and the thread that fills `timeline`, on a clock that starts at 0 with it.

    A context manager. `lock` guards the timeline while the block runs.
    """

    def __init__(self, lab_name: str, rails: int, interval_s: float) -> None:
        self.timeline = Timeline(rails)
        self.lock = threading.Lock()
        self.start = time.monotonic()
        # Bytes that every single node has sent.
        self.least_sent = 0
        package_root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
        path = os.pathsep.join(p for p in (package_root, os.environ.get("PYTHONPATH")) if p)
        self._process = subprocess.Popen(
            [sys.executable, "-m", "nezha_tools.chaos.sampler", lab_name, str(round(1000 * interval_s))],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, start_new_session=True, text=True,
            env={**os.environ, "PYTHONPATH": path})
        self._thread = threading.Thread(target=self._read, name="nezha-chaos-sampler", daemon=True)

    def now(self) -> float:
        """Seconds on the timeline's clock."""
        return time.monotonic() - self.start

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if not line.endswith("\n"):
                return  # cut off by the end
            fields = line.split()
            with self.lock:
                self.least_sent = int(fields[1])
                self.timeline.add(float(fields[0]) - self.start, [int(f) for f in fields[2:]])

    def __enter__(self) -> "Sampler":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()
        self._thread.join()
        assert self._process.stdout is not None
        self._process.stdout.close()


if __name__ == "__main__":
    main()
