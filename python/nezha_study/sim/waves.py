"""Schedules as waves: arrays of transfers in which every host sends at most one and gets at most one.

A wave's transfers go together in one step of the engine; waves in their order respect what a rank must
have before it may send. A form is what one algorithm is made of, generated for worlds of any size
(forms.py); a test proves it equal to the shipped schedules (tests/oracle/shipped.py).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Callable, Dict, Iterator, List, Optional, Sequence, Tuple, Union

import numpy as np

from ..plan.library import ask

Array = np.ndarray[Any, Any]
Index = Union[Array, int]


@dataclass(frozen=True)
class Wave:
    """Transfers src[i] -> dst[i] of parts [begin[i], end[i]) of slice[i]; see src/schedule/schedule.h.

    reduces: the receiver adds. fresh: the sender needs nothing before. token: what lands is all that the
    receiver needs for its next send; else it must have landed beside everything before. again: the
    transfer belongs to the round of its sender's last one, and waits for nothing that has come since.
    ends: what lands is not sent on.
    lanes: where the states of sender and receiver are kept, if not by rank. chunk: one for each transfer,
    where a wave is not of all chunks.
    """

    src: Array
    dst: Array
    slice: Index
    begin: Index
    end: Index
    stage: Index
    slot: Index = 0
    reduces: Union[bool, Array] = False
    fresh: bool = False
    token: bool = False
    again: Union[bool, Array] = False
    ends: bool = False
    lanes: Optional[Tuple[Array, Array]] = None
    chunk: Optional[Array] = None


@dataclass(frozen=True)
class Burst:
    """Waves of which all of one chunk come before the next chunk."""

    waves: Sequence[Wave]


@dataclass(frozen=True)
class Alike:
    """`count` times the same hosts in the same parts: parts(k) are those of the k-th time. Where hosts
    and sizes are alike, too, the engine may run a few and multiply the rest. by_chunk: all of the first
    chunk come before the second one."""

    count: int
    parts: Callable[[int], Sequence[Union[Wave, Burst]]]
    by_chunk: bool = False


Part = Union[Wave, Burst, Alike]


@dataclass(frozen=True)
class Form:
    """One algorithm over `ranks` ranks: its waves in order. lanes: how many states are kept; owners: by
    lane a rank of its host (None: every rank has as many)."""

    collective: str
    algorithm: str
    ranks: int
    lanes: int
    parts: Callable[[], Iterator[Part]]
    chain: bool = False  # rank to rank, chunk after chunk: no rank sends in two waves
    owners: Optional[Array] = None

    @property
    def at_once(self) -> bool:
        """Whether a rank that has a chunk may send it to everybody, in one round: its port then has a
        chunk for all of them before the next chunk."""
        return self.collective == "broadcast" and self.algorithm in ("tree", "leaders")

    def waves(self) -> Iterator[Wave]:
        """All waves one by one."""
        for part in self.parts():
            if isinstance(part, Alike):
                for number in range(part.count):
                    yield from _flat(part.parts(number))
            else:
                yield from _flat([part])


def _flat(parts: Sequence[Union[Wave, Burst]]) -> Iterator[Wave]:
    for part in parts:
        yield from part.waves if isinstance(part, Burst) else [part]


@dataclass(frozen=True)
class Plan:
    """What the library chose for an operation: its algorithm, chunks and what slices and parts are."""

    algorithm: str
    chunks: int
    window: int
    slices: int
    parts: int
    geometry: str
    chunk_elements: int
    element_bytes: int


def plan(request: Dict[str, Any]) -> Plan:
    """The shipped plan of an operation; request as of nezha_query's "schedule"."""
    answer = ask("schedule", request)
    return Plan(answer["algorithm"], answer["chunks_per_slice"], answer["window"], answer["slices"],
                answer["parts"], answer["geometry"], answer["chunk_elements"], answer["element_bytes"])


class Sizes:
    """Bytes of a transfer, by the rules of src/schedule/chunk_map.h.

    exact: pieces are whole elements, the first ones longer by one; else all pieces are alike, which lets
    the engine multiply what repeats.
    """

    def __init__(self, made: Plan, count: int, ranks: int, exact: bool) -> None:
        self._plan, self._count, self._ranks, self._exact = made, count, ranks, exact

    def of(self, wave: Wave, chunk: Index) -> Array:
        """Bytes of every transfer of a wave, of this chunk."""
        made = self._plan
        if made.geometry in ("block_parts", "rows"):
            elements = self._piece(wave.begin, wave.end, self._count, self._ranks)
        elif made.geometry == "even":
            size = self._piece(wave.slice, np.add(wave.slice, 1), self._count, made.slices)
            size = self._piece(chunk, np.add(chunk, 1), size, made.chunks)
            elements = self._piece(wave.begin, wave.end, size, made.parts)
        else:
            block = wave.dst if made.geometry == "pair_slices" else wave.slice
            size = self._piece(block, np.add(block, 1), self._count, self._ranks)
            if self._exact:
                elements = np.clip(size - np.multiply(chunk, made.chunk_elements), 0, made.chunk_elements)
            else:
                elements = size / made.chunks
        carries = np.less(wave.begin, wave.end)
        whole = np.where(carries, elements * made.element_bytes, 0)
        return np.broadcast_to(np.asarray(whole, float), wave.src.shape)

    def _piece(self, begin: Index, end: Index, size: Any, pieces: int) -> Any:
        """Elements of pieces [begin, end) when `size` is cut into `pieces`."""
        if not self._exact:
            return np.multiply(np.subtract(end, begin), np.divide(size, pieces))
        base, longer = np.divmod(size, pieces)
        first = np.multiply(begin, base) + np.minimum(begin, longer)
        return np.multiply(end, base) + np.minimum(end, longer) - first


Row = Tuple[int, int, int, int, int, int, int, bool]


def rows(form: Form) -> List[Row]:
    """Every transfer as (src, dst, slice, begin, end, stage, slot, reduces), sorted."""
    found: List[Row] = []
    for wave in form.waves():
        columns = [np.broadcast_to(np.asarray(each), wave.src.shape).tolist() for each in
                   (wave.src, wave.dst, wave.slice, wave.begin, wave.end, wave.stage, wave.slot,
                    wave.reduces)]
        found.extend(zip(*columns))
    return sorted(found)
