"""The shipped schedules as waves: the steps of all ranks, from the native module, matched in pairs."""

from __future__ import annotations

from collections import defaultdict, deque
from dataclasses import dataclass
from typing import Any, Dict, List, Optional, Set, Tuple

import numpy as np

from nezha_tools.cli.errors import PlanError
from nezha_study.plan.library import ask
from nezha_study.sim.layout import Layout
from nezha_study.sim.waves import Form, Row, Wave

RANKS_MAX = 256
_Key = Tuple[int, int, int, int, int]  # src, dst, slice, stage, slot


@dataclass
class _End:
    """One side of a transfer: where in its rank's program of the slice it stands."""

    round: int
    place: int  # among the steps of its kind in the program
    begin: int
    end: int
    reduces: bool


def form(collective: str, algorithm: str, ranks: int, root: int = 0,
         layout: Optional[Layout] = None) -> Form:
    """The shipped schedules of all ranks. A rank's state is kept for each slice, so that waves wait for
    exactly what the rounds of the schedule wait for. Raises PlanError where the library refuses."""
    answer = answer_of(collective, algorithm, ranks, root, layout)
    slices = answer["slices"] if ranks > 1 else 1
    waves = _waves(answer["ranks"], slices)
    return Form(collective, answer["algorithm"], ranks, ranks * slices, lambda: iter(waves))


def rows(collective: str, algorithm: str, ranks: int, root: int = 0,
         layout: Optional[Layout] = None) -> List[Row]:
    """Every transfer of the shipped schedules, as waves.rows has those of a form."""
    sends, receives = _ends(answer_of(collective, algorithm, ranks, root, layout)["ranks"])
    assert sends.keys() == receives.keys()
    return sorted((src, dst, number, sends[key].begin, sends[key].end, stage, slot, receives[key].reduces)
                  for key in sends for src, dst, number, stage, slot in [key])


def answer_of(collective: str, algorithm: str, ranks: int, root: int,
             layout: Optional[Layout]) -> Dict[str, Any]:
    """The library's answer with the steps of all ranks."""
    hosts = {} if layout is None else {"host_of": layout.host_of.tolist()}
    return ask("schedule", {"collective": collective, "algorithm": algorithm, "world_size": ranks,
                            "bytes": 0 if collective == "barrier" else 1024 * ranks, "root": root,
                            "steps": True, **hosts})


def _waves(programs: List[Dict[str, Any]], slices: int) -> List[Wave]:
    sends, receives = _ends(programs)
    if sends.keys() != receives.keys():
        raise PlanError("the schedule has sends without receives; this is a bug of the schedule")
    numbers = _numbers(sends, receives)
    again = _again(sends)
    ports: Dict[Tuple[str, int, int], int] = defaultdict(int)
    groups: Dict[Tuple[int, int], List[_Key]] = defaultdict(list)
    for key in sorted(numbers, key=lambda each: (numbers[each], each[2], sends[each].place)):
        number = numbers[key]
        taken = ("src", key[0], number), ("dst", key[1], number)
        turn = max(ports[each] for each in taken)
        for each in taken:
            ports[each] = turn + 1
        groups[number, turn].append(key)
    return [_wave(groups[place], sends, receives, slices, again) for place in sorted(groups)]


def _ends(programs: List[Dict[str, Any]]) -> Tuple[Dict[_Key, _End], Dict[_Key, _End]]:
    sends: Dict[_Key, _End] = {}
    receives: Dict[_Key, _End] = {}
    for program in programs:
        rank = program["rank"]
        for number, content in enumerate(program["slices"]):
            place = 0
            for turn, steps in enumerate(content["rounds"]):
                for step in steps:
                    if step["kind"] == "copy":
                        continue
                    is_send, peer = step["kind"] == "send", step["peer"]
                    pair = (rank, peer) if is_send else (peer, rank)
                    begin, end = step["parts"]
                    (sends if is_send else receives)[(*pair, number, step["stage"], step["slot"])] = _End(
                        turn, place, begin, end, step["kind"] == "recv_reduce")
                    place += 1
    return sends, receives


def _numbers(sends: Dict[_Key, _End], receives: Dict[_Key, _End]) -> Dict[_Key, int]:
    """The wave of every transfer: behind all that its sender must have, and that its receiver has sent
    and taken before, in the order of their programs; not before its receiver's round is open."""
    steps: Dict[Tuple[int, int], List[Tuple[int, bool, _Key]]] = defaultdict(list)
    for key, end in sends.items():
        steps[key[0], key[2]].append((end.place, True, key))
    for key, end in receives.items():
        steps[key[1], key[2]].append((end.place, False, key))
    after: Dict[_Key, List[Tuple[_Key, int]]] = defaultdict(list)  # with the least distance in waves
    for found in steps.values():
        sent: List[_Key] = []
        taken: List[_Key] = []
        opening: Optional[_Key] = None  # the first send of the latest round that has one
        for _, is_send, key in sorted(found):
            for each in (sent if is_send else taken)[-1:]:
                after[each].append((key, 1))
            if is_send:
                for each in taken:
                    if receives[each].round < sends[key].round:
                        after[each].append((key, 1))
                if opening is None or sends[opening].round < sends[key].round:
                    opening = key
            elif opening is not None:
                after[opening].append((key, 0))
            (sent if is_send else taken).append(key)
    return _longest(after, list(sends))


def _longest(after: Dict[_Key, List[Tuple[_Key, int]]], keys: List[_Key]) -> Dict[_Key, int]:
    """The least numbers that keep all distances. Two that exchange are at distance 0 both ways."""
    numbers = dict.fromkeys(keys, 0)
    waiting = deque(keys)
    while waiting:
        key = waiting.popleft()
        for following, distance in after[key]:
            least = numbers[key] + distance
            if least > len(keys):
                raise PlanError("the schedule waits for itself; this is a bug of the schedule")
            if numbers[following] < least:
                numbers[following] = least
                waiting.append(following)
    return numbers


def _again(sends: Dict[_Key, _End]) -> Set[_Key]:
    """The sends that are not the first of their round."""
    rounds: Dict[Tuple[int, int, int], List[_Key]] = defaultdict(list)
    for key, end in sends.items():
        rounds[key[0], key[2], end.round].append(key)
    return {key for found in rounds.values() for key in found
            if sends[key].place > min(sends[each].place for each in found)}


def _wave(keys: List[_Key], sends: Dict[_Key, _End], receives: Dict[_Key, _End], slices: int,
          again: Set[_Key]) -> Wave:
    columns = np.array([[*key, sends[key].begin, sends[key].end] for key in keys])
    src, dst, slice_ = columns[:, 0], columns[:, 1], columns[:, 2]
    return Wave(src, dst, slice_, columns[:, 5], columns[:, 6], stage=columns[:, 3], slot=columns[:, 4],
                reduces=np.array([receives[key].reduces for key in keys]),
                again=np.array([key in again for key in keys]),
                lanes=(src * slices + slice_, dst * slices + slice_))


_COLLECTIVES = ("all_reduce", "broadcast", "barrier", "all_gather", "reduce_scatter", "reduce", "gather",
                "scatter", "all_to_all", "all_to_all_v")


def catalog(host_of: Optional[List[int]] = None) -> List[Tuple[str, str]]:
    """(collective, algorithm) of every row of the library's catalog, and on mixed hosts of its
    hierarchies."""
    hosts = {} if host_of is None else {"host_of": host_of, "world_size": len(host_of)}
    return [(collective, row["algorithm"]) for collective in _COLLECTIVES
            for row in ask("explain", {"collective": collective, "bytes": 4096, **hosts})["candidates"]]
