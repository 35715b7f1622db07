"""Who waits for whom, and who is at the end of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Dict, List, Optional, Sequence, Set, Tuple

from .dumps import Dump, Operation
from .finding import Finding
from nezha.launcher import ranks_text
from .arrivals import Timeline


@dataclass(frozen=True)
class Wait:
    """`waiter` cannot go on without `awaited`. Global ranks."""

    waiter: int
    awaited: int
    call: Operation
    missing: bool  # `awaited` has not made the call that `waiter` is in


def _waits_of(dump: Dump, call: Operation, timeline: Timeline) -> List[Wait]:
    absent: Set[int] = set()
    if call.op_seq is not None:
        absent = {rank for rank, following in timeline.next_op_seq.get(call.comm, {}).items()
                  if following <= call.op_seq}
    named = list(call.waits_for) if call.op_seq is not None or call.peer is None else [call.peer]
    awaited = {timeline.global_rank(call.comm, each) for each in named}
    ranks = {rank for rank in awaited if rank is not None} | absent
    return [Wait(dump.rank, rank, call, rank in absent) for rank in sorted(ranks - {dump.rank})]


def waits(dumps: Sequence[Dump], timeline: Timeline) -> List[Wait]:
    """Every rank's waits: those of its oldest call in each communicator that is stuck."""
    found = []
    for dump in dumps:
        looked_at: Set[Tuple[int, bool]] = set()
        for call in dump.operations:
            kind = (call.comm, call.op_seq is None)
            if not call.is_stuck or kind in looked_at and call.op_seq is not None:
                continue
            looked_at.add(kind)
            found += _waits_of(dump, call, timeline)
    return found


def _last_call(dump: Dump, comm: int) -> Optional[Operation]:
    calls = [call for call in dump.operations if call.op_seq is not None]
    own = [call for call in calls if call.comm == comm]
    return own[-1] if own else calls[-1] if calls else None


def _did_last(dump: Dump, comm: int) -> str:
    call = _last_call(dump, comm)
    if call is None:
        return "it has made no call that is remembered"
    ago = (dump.written_us - (call.finished_us or call.submitted_us)) / 1e6
    where = "" if call.comm == comm else f" (communicator {call.comm})"
    return (f"its last was #{call.op_seq} {call.describe()}{where}, {call.state} "
            f"{max(ago, 0):.1f} s before")


def _culprit(rank: int, against: List[Wait], dumps: Dict[int, Dump]) -> Finding:
    wait = min(against, key=lambda each: (each.call.op_seq is None, each.call.op_seq or 0))
    call = wait.call
    waiters = sorted({each.waiter for each in against})
    number = "" if call.op_seq is None else f" #{call.op_seq}"
    what = f"{call.describe()}{number} of communicator {call.comm}"
    say = f"{ranks_text(waiters)} wait{'s' if len(waiters) == 1 else ''} for rank {rank} in {what}"
    if rank not in dumps:
        return Finding("absent", (rank,), f"{say}, and there is no dump of it: it is dead, or hangs so "
                       "that it cannot write one.", call.comm, call.op_seq, {"waiters": waiters})
    if wait.missing:
        return Finding("missing_call", (rank,), f"{say}, which rank {rank} has not called: "
                       f"{_did_last(dumps[rank], call.comm)}. Find out what it does instead.",
                       call.comm, call.op_seq, {"waiters": waiters})
    return Finding("data", (rank,), f"{say}, and rank {rank} itself waits for no rank: what it sent has "
                   "not arrived, or it is not making progress.", call.comm, call.op_seq,
                   {"waiters": waiters})


def _cycle(start: int, outgoing: Dict[int, List[Wait]]) -> List[Wait]:
    """A closed walk that can be reached from `start`, where every rank waits for another."""
    path: List[Wait] = []
    seen: Dict[int, int] = {}
    rank = start
    while rank not in seen:
        seen[rank] = len(path)
        path.append(outgoing[rank][0])
        rank = path[-1].awaited
    return path[seen[rank]:]


def _closed(walk: List[Wait]) -> Finding:
    ranks = tuple(sorted({wait.waiter for wait in walk}))
    first = walk[0].call
    if first.op_seq is not None and all(
            (wait.call.comm, wait.call.op_seq) == (first.comm, first.op_seq) and not wait.missing
            for wait in walk):
        return Finding("data", ranks, f"{ranks_text(ranks)} are all in {first.describe()} #{first.op_seq}"
                       f" of communicator {first.comm} and wait for each other's data: look at the "
                       "rails between them.", first.comm, first.op_seq)
    steps = [f"rank {wait.waiter} waits for rank {wait.awaited} in {wait.call.describe()} (communicator "
             f"{wait.call.comm})" for wait in walk]
    return Finding("deadlock", ranks, f"{'; '.join(steps)}: none of them can continue. All ranks must "
                   "use their communicators, and messages, in compatible orders.", first.comm,
                   first.op_seq)


def who_blocks(dumps: Sequence[Dump], timeline: Timeline) -> List[Finding]:
    """The ranks at the end of all waiting, or the circle in which they wait for each other."""
    by_rank = {dump.rank: dump for dump in dumps}
    outgoing: Dict[int, List[Wait]] = {}
    incoming: Dict[int, List[Wait]] = {}
    for wait in waits(dumps, timeline):
        outgoing.setdefault(wait.waiter, []).append(wait)
        incoming.setdefault(wait.awaited, []).append(wait)
    ends = sorted(rank for rank in incoming if rank not in outgoing)
    if ends:
        return [_culprit(rank, incoming[rank], by_rank) for rank in ends]
    return [_closed(_cycle(min(outgoing), outgoing))] if outgoing else []
