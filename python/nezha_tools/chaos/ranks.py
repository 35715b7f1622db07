"""The processes of the program under test: found when they start, stopped, continued, killed.

Threads: add() in the one that starts them, the rest in any.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import threading
import time
from dataclasses import replace
from typing import Any, Dict, List, Optional, Set, Tuple

from nezha.launcher import Rank
from ..cli.errors import ChaosError

_SEEN_S = 2.0  # for a signal to show in /proc


class Ranks:
    """Which process each rank is. One rank a node."""

    def __init__(self) -> None:
        self._pids: Dict[int, int] = {}
        self._lock = threading.Lock()
        self.killed: Set[int] = set()

    def watched(self, ranks: List[Rank]) -> List[Rank]:
        """The same ranks, known here as soon as they run."""
        return [replace(rank, start=self._noting(rank)) for rank in ranks]

    def _noting(self, rank: Rank) -> Any:
        def start(**options: Any) -> "subprocess.Popen[bytes]":
            popen = rank.start(**options)
            with self._lock:
                self._pids[rank.rank] = popen.pid
            return popen

        return start

    def any_ended(self) -> bool:
        """Whether a rank has ended that nobody killed here: the program is on its way out."""
        with self._lock:
            pids = {rank: pid for rank, pid in self._pids.items() if rank not in self.killed}
        return any(_stat(pid)[0] in "ZX" for pid in pids.values())

    def stop(self, rank: int) -> bool:
        """SIGSTOP to all of a rank's processes; whether its first one was then seen stopped."""
        self._signal(rank, signal.SIGSTOP)
        return self._seen(rank, "T")

    def stopped(self, rank: int) -> bool:
        """Whether it is stopped now."""
        return _stat(self._pid(rank))[0] == "T"

    def go_on(self, rank: int) -> None:
        """SIGCONT."""
        self._signal(rank, signal.SIGCONT)

    def kill(self, rank: int) -> bool:
        """SIGKILL to all of a rank's processes; whether its first one is then seen dead."""
        self.killed.add(rank)
        self._signal(rank, signal.SIGKILL)
        return self._seen(rank, "ZX")

    def processor_ticks(self, rank: int) -> int:
        """Clock ticks of processor time that a rank's first process has used."""
        return _stat(self._pid(rank))[1]

    def _pid(self, rank: int) -> int:
        with self._lock:
            if rank not in self._pids:
                raise ChaosError(f"rank {rank} does not run")
            return self._pids[rank]

    def _signal(self, rank: int, number: int) -> None:
        pid = self._pid(rank)
        # The launcher gives every rank a group of its own, and reaps it only after its end.
        if _stat(pid)[0] not in "ZX":
            with contextlib.suppress(ProcessLookupError):
                os.killpg(pid, number)

    def _seen(self, rank: int, states: str) -> bool:
        pid = self._pid(rank)
        deadline = time.monotonic() + _SEEN_S
        while _stat(pid)[0] not in states:
            if time.monotonic() > deadline:
                return False
            time.sleep(0.005)
        return True


def _stat(pid: Optional[int]) -> Tuple[str, int]:
    """(state, ticks) of a process; ("X", 0) when it is gone."""
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as file:
            fields = file.read().rpartition(")")[2].split()
    except OSError:
        return "X", 0
    return fields[0], int(fields[11]) + int(fields[12])
