"""monitored_barrier: a barrier that names the ranks which did not come.

It runs over the group's store and not over its connections, so that it also tells who is missing when
an operation hangs.
"""

from __future__ import annotations

import datetime
import time
from typing import Any, List

from ._failures import BackendTimedOut

_POLL_S = 0.005


def monitored_barrier(store: Any, rank: int, world: int, call: int, timeout_s: float,
                      wait_all_ranks: bool) -> None:
    """Returns when all `world` ranks have called it for the `call`-th time.

    Raises BackendTimedOut: at rank 0 with the absent ranks (only the first, unless
    wait_all_ranks), at the others because rank 0 did not come or found somebody absent.
    """
    prefix = f"nezha/monitored_barrier/{call}"
    if rank == 0:
        _gather(store, prefix, world, timeout_s, wait_all_ranks)
    else:
        _report(store, prefix, rank, timeout_s)


def _gather(store: Any, prefix: str, world: int, timeout_s: float, wait_all_ranks: bool) -> None:
    deadline = time.monotonic() + timeout_s
    absent = list(range(1, world))
    while True:
        absent = [rank for rank in absent if not store.check([f"{prefix}/{rank}"])]
        if not absent or time.monotonic() > deadline:
            break
        time.sleep(_POLL_S)
    verdict = _verdict(absent, timeout_s, wait_all_ranks)
    store.set(f"{prefix}/verdict", verdict or "complete")
    if verdict:
        raise BackendTimedOut(verdict)


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


def _report(store: Any, prefix: str, rank: int, timeout_s: float) -> None:
    store.set(f"{prefix}/{rank}", "here")
    # Rank 0 needs as long to give up, and its verdict says more than "it took too long".
    patience = datetime.timedelta(seconds=2 * timeout_s + 1)
    try:
        store.wait([f"{prefix}/verdict"], patience)
        verdict = bytes(store.get(f"{prefix}/verdict")).decode()
    except Exception as error:
        milliseconds = int(timeout_s * 1e3)
        raise BackendTimedOut(
            f"[Rank {rank}]: Rank {rank} timed out in monitoredBarrier after {milliseconds} ms: "
            f"rank 0 did not come") from error
    if verdict != "complete":
        raise BackendTimedOut(
            f"[Rank {rank}]: Rank {rank} successfully reached monitoredBarrier, but received errors "
            f"while waiting for send/recv from rank 0: {verdict}")
