"""Who came when: the calls of all ranks side by side, on one clock."""

from __future__ import annotations

from statistics import median
from typing import Dict, Iterator, List, Optional, Sequence, Tuple

from .dumps import Dump, Operation

# Operations that end on all ranks at about the same time: nobody is through before everybody has come.
_TOGETHER = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all", "all_to_all_v", "barrier")

Calls = Dict[int, Dict[int, Dict[int, Operation]]]  # by communicator, op_seq and global rank


class Timeline:
    """The collectives of all dumps, by communicator, number and global rank."""

    def __init__(self, dumps: Sequence[Dump]) -> None:
        self.calls: Calls = {}
        self.members: Dict[int, Tuple[int, ...]] = {}
        self.next_op_seq: Dict[int, Dict[int, int]] = {}  # by communicator and global rank
        for dump in dumps:
            for member in dump.communicators:
                if member.members:
                    self.members[member.comm] = member.members
                self.next_op_seq.setdefault(member.comm, {})[dump.rank] = member.next_op_seq
            for call in dump.operations:
                if call.op_seq is not None:
                    by_rank = self.calls.setdefault(call.comm, {}).setdefault(call.op_seq, {})
                    by_rank[dump.rank] = call
        for comm, by_seq in self.calls.items():
            for op_seq, by_rank in by_seq.items():
                known = self.next_op_seq.setdefault(comm, {})
                for rank in by_rank:
                    known[rank] = max(known.get(rank, 0), op_seq + 1)
        self.skew_us = self._skews()

    def global_rank(self, comm: int, rank: int) -> Optional[int]:
        """The global rank of a communicator's; None where the communicator is not known."""
        members = self.members.get(comm, ())
        return members[rank] if 0 <= rank < len(members) else None

    def in_order(self, comm: int) -> Iterator[Tuple[int, Dict[int, Operation]]]:
        """(op_seq, calls by global rank), first to last."""
        yield from sorted(self.calls.get(comm, {}).items())

    def submitted_us(self, rank: int, call: Operation) -> float:
        """When the rank made the call, on the clock that all ranks have in common."""
        return call.submitted_us - self.skew_us.get(rank, 0.0)

    def _skews(self) -> Dict[int, float]:
        """How far each rank's clock is ahead: operations that end together show it."""
        ahead: Dict[int, List[float]] = {}
        for by_seq in self.calls.values():
            for by_rank in by_seq.values():
                ends = {rank: call.finished_us for rank, call in by_rank.items()
                        if call.state == "done" and call.finished_us is not None
                        and call.collective in _TOGETHER}
                if len(ends) < 2:
                    continue
                middle = median(ends.values())
                for rank, end in ends.items():
                    ahead.setdefault(rank, []).append(end - middle)
        return {rank: median(each) for rank, each in ahead.items()}
