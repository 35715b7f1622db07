"""The first operation in which ranks called different things."""

from __future__ import annotations

from typing import Any, Dict, List, Optional, Tuple

from .dumps import Operation
from .finding import Finding
from nezha.launcher import ranks_text
from .arrivals import Timeline

# The most telling first: another collective explains every other difference.
_FIELDS = ("collective", "root", "dtype", "op", "count", "algorithm", "plan")
# Each pair of ranks has a count of its own there.
_LOCAL = {"all_to_all_v": ("count", "plan")}

Identity = Tuple[Any, ...]


def _identity(call: Operation) -> Identity:
    local = _LOCAL.get(call.collective, ())
    return tuple(None if name in local else getattr(call, name) for name in _FIELDS)


def _camps(by_rank: Dict[int, Operation]) -> List[List[int]]:
    """The ranks that agree with each other, the largest camp first; of equal ones that of rank 0."""
    camps: Dict[Identity, List[int]] = {}
    for rank in sorted(by_rank):
        camps.setdefault(_identity(by_rank[rank]), []).append(rank)
    return sorted(camps.values(), key=lambda ranks: (-len(ranks), ranks[0]))


def _differing_field(one: Operation, other: Operation) -> str:
    pairs = zip(_FIELDS, _identity(one), _identity(other))
    return next(name for name, mine, theirs in pairs if mine != theirs)


def _shift(timeline: Timeline, comm: int, op_seq: int, odd: int, usual: int) -> Optional[str]:
    """Whether the odd rank is one call ahead of, or behind, the usual one from here on."""
    def sequence(rank: int, start: int) -> List[Identity]:
        found = []
        while rank in timeline.calls[comm].get(start, {}):
            found.append(_identity(timeline.calls[comm][start][rank]))
            start += 1
        return found

    theirs, ours = sequence(odd, op_seq), sequence(usual, op_seq)
    skipped = timeline.calls[comm][op_seq][usual].describe()
    extra = timeline.calls[comm][op_seq][odd].describe()
    if len(ours) > 1 and all(a == b for a, b in zip(theirs, ours[1:])):
        return f"it left out the {skipped}: from there on its calls are theirs one later"
    if len(theirs) > 1 and all(a == b for a, b in zip(theirs[1:], ours)):
        return f"the {extra} is one call too many: the calls after it are theirs"
    return None


def _between(timeline: Timeline, comm: int, op_seq: int) -> Optional[Finding]:
    by_rank = timeline.calls[comm][op_seq]
    camps = _camps(by_rank)
    if len(camps) < 2:
        return None
    usual, odd = camps[0], [rank for camp in camps[1:] for rank in camp]
    name = _differing_field(by_rank[usual[0]], by_rank[odd[0]])
    values = {str(rank): getattr(by_rank[rank], name) for rank in sorted(by_rank)}
    said = [f"{ranks_text(camp)} called {by_rank[camp[0]].describe()}" for camp in camps]
    text = f"operation #{op_seq} of communicator {comm}: the {name} differs. {'; '.join(said)}."
    tie = len(camps[1]) == len(usual)
    blamed = sorted(usual + odd) if tie else sorted(odd)
    if tie:
        text += " Neither is the majority: look at all of them."
    elif len(odd) == 1:
        shift = _shift(timeline, comm, op_seq, odd[0], usual[0])
        text += f" Rank {odd[0]} is alone with it" + (f"; {shift}." if shift else ".")
    if name in ("algorithm", "plan"):
        text += " The lengths of the blocks, or the configuration, are not equal on all ranks."
    return Finding("mismatch", tuple(blamed), text, comm, op_seq, {"field": name, "values": values})


def disagreements(timeline: Timeline) -> List[Finding]:
    """The first disagreement of each communicator; those after it follow from it."""
    found = []
    for comm in sorted(timeline.calls):
        for op_seq in sorted(timeline.calls[comm]):
            finding = _between(timeline, comm, op_seq)
            if finding is not None:
                found.append(finding)
                break
    return found
