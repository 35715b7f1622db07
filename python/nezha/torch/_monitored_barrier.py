"""monitored_barrier: a barrier that names the ranks which did not come.

It runs over the group's store and not over its connections, so that it also tells who is missing when
an operation hangs. In the store a call leaves one key, the verdict, until the next call is complete.
"""

from __future__ import annotations

import contextlib
import datetime
import time
from typing import Any, List

from ._failures import BackendTimedOut

_POLL_S = 0.005
# Verdicts of calls with absent ranks that are kept for these ranks.
_KEPT = 16


class MonitoredBarrier:
    """The barriers of the members of a group, at one of them. One thread at a time.

    A barrier is told from others by its number, so an object serves as long as the members are the same.
    """

    def __init__(self, store: Any) -> None:
        self._store = store
        self._calls = 0
        self._verdicts: List[str] = []  # rank 0: the keys that are in the store, the oldest first

    def call(self, rank: int, world: int, timeout_s: float, wait_all_ranks: bool) -> None:
        """Returns when all `world` ranks have called it as often as this one.

        Raises BackendTimedOut: at rank 0 with the absent ranks (only the first, unless
        wait_all_ranks), at the others because rank 0 did not come or found somebody absent.
        """
        self._calls += 1
        prefix = f"nezha/monitored_barrier/{self._calls}"
        if rank == 0:
            self._gather(prefix, world, timeout_s, wait_all_ranks)
        else:
            self._report(prefix, rank, timeout_s)

    def _gather(self, prefix: str, world: int, timeout_s: float, wait_all_ranks: bool) -> None:
        deadline = time.monotonic() + timeout_s
        absent = list(range(1, world))
        while True:
            absent = [rank for rank in absent if not self._store.check([f"{prefix}/{rank}"])]
            if not absent or time.monotonic() > deadline:
                break
            time.sleep(_POLL_S)
        verdict = _verdict(absent, timeout_s, wait_all_ranks)
        # Whoever has come to this call has read the verdicts of those before it.
        outdated = len(self._verdicts) - _KEPT if absent else len(self._verdicts)
        for _ in range(outdated):
            self._store.delete_key(self._verdicts.pop(0))
        self._verdicts.append(f"{prefix}/verdict")
        self._store.set(self._verdicts[-1], verdict or "complete")
        if verdict:
            raise BackendTimedOut(verdict)

    def _report(self, prefix: str, rank: int, timeout_s: float) -> None:
        store, here = self._store, f"{prefix}/{rank}"
        store.set(here, "here")
        # Rank 0 needs as long to give up, and its verdict says more than "it took too long".
        patience = datetime.timedelta(seconds=2 * timeout_s + 1)
        try:
            store.wait([f"{prefix}/verdict"], patience)
            verdict = bytes(store.get(f"{prefix}/verdict")).decode()
            store.delete_key(here)
        except Exception as error:
            with contextlib.suppress(Exception):  # the store may be gone with rank 0
                store.delete_key(here)
            milliseconds = int(timeout_s * 1e3)
            raise BackendTimedOut(
                f"[Rank {rank}]: Rank {rank} timed out in monitoredBarrier after {milliseconds} ms: "
                f"rank 0 did not come") from error
        if verdict != "complete":
            raise BackendTimedOut(
                f"[Rank {rank}]: Rank {rank} successfully reached monitoredBarrier, but received errors "
                f"while waiting for send/recv from rank 0: {verdict}")


def _verdict(absent: List[int], timeout_s: float, wait_all_ranks: bool) -> str:
    milliseconds = int(timeout_s * 1e3)
    if not absent:
        return ""
    if wait_all_ranks:
        who = "Ranks " + ", ".join(map(str, absent))
    else:
        who = f"Rank {absent[0]}"
    return (f"[Rank 0]: {who} failed to pass monitoredBarrier in {milliseconds} ms: Rank 0 timed out "
            f"in monitoredBarrier, it timed out after {milliseconds} ms")

