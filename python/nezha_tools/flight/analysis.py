"""The cause: the dumps of a job's ranks, compared. Pure: no files, no clock."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Dict, List, Optional, Sequence, Set, Tuple

from .disagreement import disagreements
from .dumps import Dump, Failure, Operation
from .finding import Finding
from nezha.launcher import ranks_text
from .arrivals import Timeline
from .waiting import who_blocks

# A rank counts as a straggler when the others waited for it at least this part of the time.
_STRAGGLING_SHARE = 0.05
_STRAGGLING_CALLS = 5
_SPEAKER = re.compile(r"rank (\d+)\b")


@dataclass(frozen=True)
class Report:
    """`findings`: the most telling first; none where nothing is wrong."""

    job: str
    world_size: int
    missing: Tuple[int, ...]  # ranks without a dump
    ranks: Tuple[Dict[str, Any], ...]  # one summary a dump
    findings: Tuple[Finding, ...]

    @property
    def verdict(self) -> str:
        """One sentence for a person in a hurry."""
        if self.findings:
            return self.findings[0].text
        return "nothing is wrong in these dumps: all ranks made the same calls, and no rank waits"

    def as_dict(self) -> Dict[str, Any]:
        """For --json."""
        return {"job": self.job, "world_size": self.world_size, "missing": list(self.missing),
                "verdict": self.verdict, "ranks": list(self.ranks),
                "findings": [finding.as_dict() for finding in self.findings]}


def _summary(dump: Dump) -> Dict[str, Any]:
    stuck = next((call for call in dump.operations if call.is_stuck), None)
    last = dump.operations[-1] if dump.operations else None
    shown = stuck or last
    return {"rank": dump.rank, "host": dump.host, "pid": dump.pid, "dump": dump.reason,
            "calls": len(dump.operations), "comm": shown.comm if shown else None,
            "op_seq": shown.op_seq if shown else None,
            "call": shown.describe() if shown else None, "state": shown.state if shown else None,
            "waits_for": list(shown.waits_for) if shown else [],
            "error": dump.failures[-1].code if dump.failures else None}


def _speaker(timeline: Timeline, failure: Failure) -> Optional[int]:
    """The global rank on which an error began; every rank has its sentence."""
    match = _SPEAKER.match(failure.text)
    return timeline.global_rank(failure.comm, int(match.group(1))) if match else None


def _errors(dumps: Sequence[Dump], timeline: Timeline) -> List[Finding]:
    """Errors that began on a rank for a reason of its own, and ranks that others lost."""
    found: Dict[Tuple[str, int, Tuple[int, ...]], Finding] = {}
    for dump in dumps:
        for failure in dump.failures:
            kind = {"exhausted": "error", "internal": "error", "unsupported": "error",
                    "peer_lost": "lost", "aborted": "aborted"}.get(failure.code)
            peer = failure.peer if kind == "lost" else None
            whose = (timeline.global_rank(failure.comm, peer) if peer is not None
                     else _speaker(timeline, failure))
            if kind is None:
                continue
            ranks = () if whose is None else (whose,)
            found.setdefault((kind, failure.comm, ranks),
                             Finding(kind, ranks, f"{failure.code}: {failure.text}", failure.comm))
    return list(found.values())


def _stragglers(timeline: Timeline) -> List[Finding]:
    """The rank that came last and made the others wait, over all collectives of a communicator."""
    found = []
    for comm in sorted(timeline.calls):
        delay: Dict[int, float] = {}
        times: List[float] = []
        counted = 0
        for _, by_rank in timeline.in_order(comm):
            come = sorted((timeline.submitted_us(rank, call), rank) for rank, call in by_rank.items())
            times += [at for at, _ in come]
            if len(come) < 2 or len(come) < len(timeline.members.get(comm, come)):
                continue
            counted += 1
            delay[come[-1][1]] = delay.get(come[-1][1], 0.0) + come[-1][0] - come[-2][0]
        if counted < _STRAGGLING_CALLS:
            continue
        rank = max(delay, key=lambda each: delay[each])
        span = max(times) - min(times)
        if delay[rank] < _STRAGGLING_SHARE * span:
            continue
        found.append(Finding(
            "straggler", (rank,), f"rank {rank} comes last: in {counted} operations of communicator "
            f"{comm} the others waited {delay[rank] / 1e6:.3f} s for it alone, "
            f"{100 * delay[rank] / span:.0f} % of the time.", comm, None,
            {"waited_s": delay[rank] / 1e6, "operations": counted}))
    return found


def _rails(dumps: Sequence[Dump]) -> List[Finding]:
    lost: Dict[Tuple[str, Tuple[int, int]], Tuple[str, int]] = {}
    for dump in dumps:
        for event in dump.rail_events:
            if event.event != "lost" or event.reason == "left in order":
                continue
            name = dump.rails[event.rail] if 0 <= event.rail < len(dump.rails) else str(event.rail)
            pair = (min(dump.rank, event.peer), max(dump.rank, event.peer))
            reason, times = lost.get((name, pair), (event.reason, 0))
            lost[name, pair] = (reason, times + 1)
    if not lost:
        return []
    parts = [f"{name} between ranks {a} and {b} ({reason})"
             for (name, (a, b)), (reason, _) in sorted(lost.items())]
    ranks: Set[int] = {rank for _, pair in lost for rank in pair}
    shown = "; ".join(parts[:8]) + ("; ..." if len(parts) > 8 else "")
    return [Finding("rails", tuple(sorted(ranks)), f"rails were lost: {shown}.", None, None,
                    {"lost": len(parts)})]


def _missing(missing: Sequence[int], told: Sequence[Finding]) -> List[Finding]:
    silent = [rank for rank in missing if not any(rank in finding.ranks for finding in told)]
    if not silent:
        return []
    return [Finding("no_dump", tuple(silent), f"there is no dump of {ranks_text(silent)}; without it "
                    "its operations are not known.")]


def _keep_causes(found: List[Finding]) -> List[Finding]:
    """Without what only follows from something else that was found."""
    explained = {finding.comm for finding in found if finding.kind in ("mismatch", "lost", "error")}
    lost = {rank for finding in found if finding.kind == "lost" for rank in finding.ranks}
    kept = []
    for finding in found:
        follows = finding.kind in ("missing_call", "deadlock", "data", "absent")
        if follows and (finding.comm in explained or lost & set(finding.ranks)):
            continue
        kept.append(finding)
    return kept


def analyse(dumps: Sequence[Dump]) -> Report:
    """What the dumps of one run, one a rank, say together. Raises ValueError without any."""
    if not dumps:
        raise ValueError("there are no dumps")
    timeline = Timeline(dumps)
    present = {dump.rank for dump in dumps}
    missing = tuple(rank for rank in range(dumps[0].world_size) if rank not in present)
    found = disagreements(timeline) + _errors(dumps, timeline) + who_blocks(dumps, timeline)
    found += _stragglers(timeline) + _rails(dumps)
    found += _missing(missing, found)
    return Report(dumps[0].job, dumps[0].world_size, missing,
                  tuple(_summary(dump) for dump in dumps),
                  tuple(sorted(_keep_causes(found), key=lambda finding: finding.weight)))


__all__ = ["Finding", "Operation", "Report", "analyse"]
