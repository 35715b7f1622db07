"""A simulated operation as a timeline that ui.perfetto.dev and chrome://tracing open."""

from __future__ import annotations

from typing import Any, Dict, List

from .operation import Answer

_RECEIVES = 1000  # rails of the receiving side, as threads of the same process


def document(answer: Answer) -> Dict[str, Any]:
    """Trace events: a process is a host, a thread a rail's sending or receiving side; microseconds."""
    events: List[Dict[str, Any]] = []
    sides = set()
    for number, each in enumerate(answer.outcome.transfers):
        name = f"stage {each.stage}, chunk {each.chunk}"
        about = {"bytes": each.size, "from host": each.src, "to host": each.dst}
        sent, landed = 1e6 * each.begin_s, 1e6 * each.landed_s
        first, second = (each.src, each.rail), (each.dst, _RECEIVES + each.rail)
        sides |= {first, second}
        events.append({"ph": "X", "name": f"{name} to host {each.dst}", "pid": first[0], "tid": first[1],
                       "ts": sent, "dur": 1e6 * (each.end_s - each.begin_s), "args": about})
        events.append({"ph": "X", "name": f"{name} from host {each.src}", "pid": second[0],
                       "tid": second[1], "ts": landed, "dur": 0, "args": about})
        events.append({"ph": "s", "id": number, "name": "transfer", "cat": "transfer", "pid": first[0],
                       "tid": first[1], "ts": sent})
        events.append({"ph": "f", "bp": "e", "id": number, "name": "transfer", "cat": "transfer",
                       "pid": second[0], "tid": second[1], "ts": landed})
    for host in sorted({host for host, _ in sides}):
        events.append({"ph": "M", "name": "process_name", "pid": host, "args": {"name": f"host {host}"}})
    for host, side in sorted(sides):
        text = f"rail {side} sends" if side < _RECEIVES else f"rail {side - _RECEIVES} has landed"
        events.append({"ph": "M", "name": "thread_name", "pid": host, "tid": side,
                       "args": {"name": text}})
    return {"displayTimeUnit": "ns", "traceEvents": events}
