"""A form as single messages, with what each waits for: flows.py runs them in the order of time.

What a lane may send depends on what has landed there. A program is what happens to one lane and chunk, in
rounds: a round opens when everything that belongs to the rounds before it has landed. (Where what lands
replaces the state of a lane, a program begins with it.)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, List

import numpy as np

from .waves import Form, Sizes, Wave

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Messages:
    """One entry for each message, in the order in which senders give them out: hosts, bytes, whether
    the receiver adds it, where it belongs (stage, chunk), the round with which it is sent and the one to
    which it belongs at its receiver. Rounds of a program are numbered one after the other; by round:
    whether one of the same program follows, and the host whose program it is."""

    src: Array
    dst: Array
    size: Array
    reduces: Array
    stage: Array
    chunk: Array
    sent_in: Array
    needed_in: Array
    is_followed: Array
    host: Array


def count(form: Form, chunks: int, most: int) -> int:
    """How many messages there are; more than `most` are not counted on."""
    found = 0
    for wave in form.waves():
        found += wave.src.size * chunks
        if found > most:
            break
    return found


def unroll(form: Form, sizes: Sizes, chunks: int) -> Messages:
    """All messages of a form. A host that may send several at once sends one chunk to everybody before
    the next one, as the library opens them."""
    parts: List[List[Array]] = []
    programs = _Programs(form, chunks)
    for chunk in range(chunks):
        for wave in form.waves():
            whole = np.zeros(wave.src.size, int)
            parts.append([wave.src, wave.dst, sizes.of(wave, np.asarray(chunk)), wave.reduces + whole,
                          wave.stage + whole, whole + chunk, *programs.step(wave, chunk)])
    src, dst, size, reduces, stage, of_chunk, sent, needed = map(np.concatenate, zip(*parts))
    rounds, place = np.unique(np.concatenate([sent, needed]), return_inverse=True)
    program = rounds // programs.rounds_max
    host = np.zeros(rounds.size, int)
    host[place] = np.concatenate([src, dst])
    return Messages(src, dst, size, reduces.astype(bool), stage, of_chunk, place[:src.size],
                    place[src.size:], np.append(program[1:] == program[:-1], False), host)


class _Programs:
    """Which round of which program each lane and chunk is in, while the waves pass."""

    def __init__(self, form: Form, chunks: int) -> None:
        waves = sum(1 for _ in form.waves())
        self.rounds_max = waves + 2
        self._lanes = form.lanes
        self._next = form.lanes * chunks  # program
        lanes = np.arange(self._next).reshape(chunks, form.lanes)
        self._at = lanes * self.rounds_max
        self._sent = self._at.copy()
        self._heard = np.zeros(lanes.shape, bool)  # since the round began

    def step(self, wave: Wave, chunk: int) -> Any:
        """The rounds, over all programs, with which messages of a wave are sent, and where they land."""
        src, dst = (wave.src, wave.dst) if wave.lanes is None else wave.lanes
        at, heard = self._at[chunk], self._heard[chunk]
        if wave.fresh:
            sent = (chunk * self._lanes + src) * self.rounds_max
        else:
            again = np.broadcast_to(wave.again, src.shape)
            sent = np.where(again, self._sent[chunk][src], at[src] + heard[src])
            at[src[~again]] = sent[~again]
            heard[src[~again]] = False
        self._sent[chunk][src] = sent
        if wave.token:
            at[dst] = (self._next + np.arange(dst.size)) * self.rounds_max
            self._next += dst.size
        heard[dst] = True
        return sent, at[dst].copy()
