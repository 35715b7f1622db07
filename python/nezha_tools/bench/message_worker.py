"""One rank of a bench of messages: `python -m nezha_tools.bench.message_worker SPEC.json`.

Rank 0 prints one line a run, `@messages {json}`; everything else on its output is somebody's log. The
ranks compare their monotonic clocks, which are one in a lab, whose nodes are on one machine.
"""

from __future__ import annotations

import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, List, Tuple

import numpy as np

from .message_spec import WARM_UP, MessageSpec, Record
from .message_traffic import PATTERN, Sent, contents, draw

_BEGIN_AFTER_S = 0.2  # for every rank to have heard when the run begins


@dataclass
class _Stream:
    """What comes from one rank: indices of its messages, their buffers and Works, and when each ended."""

    source: int
    indices: Any
    buffers: List[Any]
    works: List[Any]
    ended: Any

    def wait(self) -> None:
        """Until all have arrived."""
        for number, work in enumerate(self.works):
            work.wait()
            self.ended[number] = time.monotonic()


def _receive(comm: Any, traffic: List[Sent]) -> List[_Stream]:
    streams = []
    for source, sent in enumerate(traffic):
        indices = np.flatnonzero(sent.receivers == comm.rank)
        if source == comm.rank or not len(indices):
            continue
        buffers = [np.empty(size, dtype=np.uint8) for size in sent.sizes[indices].tolist()]
        works = [comm.recv(buffer, source, async_op=True) for buffer in buffers]
        streams.append(_Stream(source, indices, buffers, works, np.zeros(len(indices))))
    return streams


def _send(comm: Any, sent: Sent, pattern: Any, begin: float) -> Tuple[List[Any], Any]:
    """Sends each message when it is due. Its Works, and seconds by which each was late."""
    works, late = [], np.zeros(len(sent.at_s))
    for number, (at, size, receiver) in enumerate(zip(
            sent.at_s.tolist(), sent.sizes.tolist(), sent.receivers.tolist())):
        wait = begin + at - time.monotonic()
        if wait > 0:
            time.sleep(wait)
        late[number] = time.monotonic() - begin - at
        first = number % PATTERN
        works.append(comm.send(pattern[first:first + size], receiver, async_op=True))
    return works, late


def _wrong(stream: _Stream, pattern: Any) -> int:
    return sum(not np.array_equal(buffer, pattern[index % PATTERN:index % PATTERN + len(buffer)])
               for index, buffer in zip(stream.indices.tolist(), stream.buffers))


def _sent_bytes(comm: Any) -> Any:
    return np.array([rail["bytes_sent"] for rail in comm.rails()], dtype=np.float64)


def _run(comm: Any, spec: MessageSpec, mean: int, load: float) -> Record:
    """One mean and load. Collective."""
    traffic = draw(comm.world_size, mean, load, spec.limit, spec.seconds, spec.seed)
    pattern = contents(max((int(sent.sizes.max()) for sent in traffic if len(sent.sizes)), default=1))
    streams = _receive(comm, traffic)
    before = _sent_bytes(comm)
    begin = np.array([time.monotonic() + _BEGIN_AFTER_S])
    comm.broadcast(begin, 0)
    threads = [threading.Thread(target=stream.wait) for stream in streams]
    for thread in threads:
        thread.start()
    works, late = _send(comm, traffic[comm.rank], pattern, float(begin[0]))
    for work in works:
        work.wait()
    for thread in threads:
        thread.join()
    comm.barrier()
    rails = comm.all_reduce(_sent_bytes(comm) - before)
    wrong = comm.all_reduce(np.array([sum(_wrong(each, pattern) for each in streams)], dtype=np.int64))
    ended = [np.concatenate([each.ended for each in streams if each.source == source] or [np.zeros(0)])
             for source in range(comm.world_size)]
    return summary(spec, mean, load, traffic, _gathered(comm, traffic, ended, float(begin[0])),
                   _late_us(comm, traffic, late), int(wrong[0]), (rails / max(rails.sum(), 1)).tolist())


def _gathered(comm: Any, traffic: List[Sent], ended: List[Any], begin: float) -> List[Any]:
    """When each message of each rank had arrived, seconds from the beginning. Collective."""
    mine = np.zeros((comm.world_size, max(len(sent.at_s) for sent in traffic)))
    for source, sent in enumerate(traffic):
        mine[source, np.flatnonzero(sent.receivers == comm.rank)] = ended[source] - begin
    everybody = comm.all_reduce(mine)
    return [everybody[source, :len(sent.at_s)] for source, sent in enumerate(traffic)]


def _late_us(comm: Any, traffic: List[Sent], late: Any) -> float:
    padded = np.zeros(max(len(sent.at_s) for sent in traffic))
    padded[:len(late)] = late
    everybody = comm.all_gather(padded)
    used = np.concatenate([row[:len(sent.at_s)] for row, sent in zip(everybody, traffic)])
    return float(np.percentile(used, 99)) * 1e6


def summary(spec: MessageSpec, mean: int, load: float, traffic: List[Sent], ended: List[Any],
            late_us: float, wrong: int, shares: List[float]) -> Record:
    """The record of one run. ended: by rank, when each of its messages had arrived, in seconds."""
    at = np.concatenate([sent.at_s for sent in traffic])
    sizes = np.concatenate([sent.sizes for sent in traffic])
    end = np.concatenate(ended)
    begin = WARM_UP * spec.seconds
    measured = (spec.seconds - begin) * spec.limit * len(traffic)
    latencies = (end - at)[at >= begin] * 1e6
    return Record(
        spec.policy, mean, load, len(latencies), float(sizes[at >= begin].sum() / measured),
        float(sizes[(end >= begin) & (end < spec.seconds)].sum() / measured), float(latencies.mean()),
        float(np.percentile(latencies, 50)), float(np.percentile(latencies, 99)), late_us, wrong, shares)


def main() -> None:
    """Joins the world that the environment describes and runs the spec."""
    import nezha

    spec = MessageSpec.load(Path(sys.argv[1]))
    try:
        with nezha.init(config={**spec.config, "message_policy": spec.policy}) as comm:
            for mean in spec.means:
                for load in spec.loads:
                    record = _run(comm, spec, mean, load)
                    if comm.rank == 0:
                        record.emit()
    except (nezha.Error, ValueError) as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
