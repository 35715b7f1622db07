"""A simulated operation as a timeline that ui.perfetto.dev and chrome://tracing open."""

from __future__ import annotations

from typing import Any, Dict, List

from .operation import Answer

_INSIDE = 500  # as a rail
_RECEIVES = 1000  # rails of the receiving side, as threads of the same process


def document(answer: Answer) -> Dict[str, Any]:
    """Trace events: a process is a rank, a thread the sending or receiving side of a rail or of what goes
    inside its host; microseconds."""
    events: List[Dict[str, Any]] = []
    sides = set()
    for number, each in enumerate(answer.outcome.transfers):
        name = f"stage {each.stage}, chunk {each.chunk}"
        about = {"bytes": each.size, "from rank": each.src, "to rank": each.dst}
        sent, landed = 1e6 * each.begin_s, 1e6 * each.landed_s
        rail = each.rail if each.rail >= 0 else _INSIDE
        first, second = (each.src, rail), (each.dst, _RECEIVES + rail)
        sides |= {first, second}
        events.append({"ph": "X", "name": f"{name} to rank {each.dst}", "pid": first[0], "tid": first[1],
                       "ts": sent, "dur": 1e6 * (each.end_s - each.begin_s), "args": about})
        events.append({"ph": "X", "name": f"{name} from rank {each.src}", "pid": second[0],
                       "tid": second[1], "ts": landed, "dur": 0, "args": about})
        events.append({"ph": "s", "id": number, "name": "transfer", "cat": "transfer", "pid": first[0],
                       "tid": first[1], "ts": sent})
        events.append({"ph": "f", "bp": "e", "id": number, "name": "transfer", "cat": "transfer",
                       "pid": second[0], "tid": second[1], "ts": landed})
    for rank in sorted({rank for rank, _ in sides}):
        events.append({"ph": "M", "name": "process_name", "pid": rank, "args": {"name": f"rank {rank}"}})
    for rank, side in sorted(sides):
        rail = side % _RECEIVES
        text = "inside the host:" if rail == _INSIDE else f"rail {rail}"
        events.append({"ph": "M", "name": "thread_name", "pid": rank, "tid": side,
                       "args": {"name": f"{text} {'sends' if side < _RECEIVES else 'has landed'}"}})
    return {"displayTimeUnit": "ns", "traceEvents": events}
