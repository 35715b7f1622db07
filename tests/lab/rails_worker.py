"""One rank under the command of a test: JSON lines in, one JSON line out for each.

Started with a JSON object of configuration values as its argument, on a node of a lab. The first
line out is {"rails", "left_out", "seconds"}, or {"error", "message", "seconds"} when the job did
not form. Commands: {"operation": NAME, "bytes": N, "count": K} runs K of them and answers a list with,
for each, {"seconds", "sent": {rail: bytes}, "right"}; {} answers what nezha_describe knows about the
rails.
An error while working is answered as {"error", "message"}. The end of the input is the end.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
import time
from typing import Any, Callable, Dict, List, Tuple

import numpy

import nezha

# Its wire is to be measured, not this machine's other work.
with contextlib.suppress(OSError):
    os.nice(-10)


def say(answer: Any) -> None:
    """One line to the test."""
    print(json.dumps(answer), flush=True)


def sent(comm: nezha.Communicator) -> Dict[str, int]:
    """Bytes that each rail has sent up to now."""
    return {rail["name"]: rail["bytes_sent"] for rail in comm.rails()}


def prepared(comm: nezha.Communicator, operation: str, size: int) -> Tuple[Callable[[], Any], Any]:
    """A call of that operation, each of whose blocks has `size` bytes, and what it must return on this
    rank; None: nothing."""
    ranks, rank = comm.world_size, comm.rank
    before, after = (rank - 1) % ranks, (rank + 1) % ranks
    pattern = numpy.arange(size // 4, dtype=numpy.float32) % 251

    def row(source: int) -> Any:
        return pattern * (source + 1)

    def message() -> Any:
        work = comm.send(own, after, async_op=True)
        received = comm.recv(numpy.zeros_like(pattern), before)
        work.wait()
        return received

    own, every = row(rank), numpy.stack([row(each) for each in range(ranks)])
    columns = numpy.stack([own + each for each in range(ranks)])  # what this rank has for each
    mine, counts = every + rank, [own.size] * ranks  # what each has for this rank
    at_root = rank == 0
    shared = own if at_root else numpy.zeros_like(pattern)
    block = numpy.zeros_like(pattern)
    return {
        "all_reduce": (lambda: comm.all_reduce(own), every.sum(axis=0)),
        "reduce": (lambda: comm.reduce(own), every.sum(axis=0) if at_root else None),
        "broadcast": (lambda: comm.broadcast(shared), row(0)),
        "all_gather": (lambda: comm.all_gather(own), every),
        "all_gather_v": (lambda: comm.all_gather_v(own, counts), every.ravel()),
        "gather": (lambda: comm.gather(own), every if at_root else None),
        "scatter": (lambda: comm.scatter(every, out=block), own),
        "reduce_scatter": (lambda: comm.reduce_scatter(columns), mine.sum(axis=0)),
        "reduce_scatter_v": (lambda: comm.reduce_scatter_v(columns.ravel(), counts), mine.sum(axis=0)),
        "all_to_all": (lambda: comm.all_to_all(columns), mine),
        "all_to_all_v": (lambda: comm.all_to_all_v(columns.ravel(), counts, counts), mine.ravel()),
        "send": (message, row(before)),
    }[operation]


def operations(comm: nezha.Communicator, operation: str, size: int, count: int) -> List[Dict[str, Any]]:
    """count operations of size bytes, checked element by element."""
    found = []
    for _ in range(count):
        call, wanted = prepared(comm, operation, size)
        before = sent(comm)
        start = time.monotonic()
        result = call()
        seconds = time.monotonic() - start
        after = sent(comm)
        found.append({"seconds": seconds, "right": wanted is None or bool((result == wanted).all()),
                      "sent": {name: after[name] - before[name] for name in after}})
    return found


def main() -> None:
    """Joins, then obeys."""
    start = time.monotonic()
    try:
        comm = nezha.init(config=json.loads(sys.argv[1]))
    except nezha.Error as error:
        say({"error": type(error).__name__, "message": str(error),
             "seconds": time.monotonic() - start})
        return
    say({**comm.describe("rails"), "seconds": time.monotonic() - start})
    for line in sys.stdin:
        command = json.loads(line)
        try:
            if "bytes" in command:
                say(operations(comm, command["operation"], command["bytes"], command["count"]))
            else:
                say(comm.describe("rails"))
        except nezha.Error as error:
            say({"error": type(error).__name__, "message": str(error)})
    comm.close()


if __name__ == "__main__":
    main()
