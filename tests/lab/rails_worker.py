"""One rank under the command of a test: JSON lines in, one JSON line out for each.

Started with a JSON object of configuration values as its argument, on a node of a lab. The first
line out is {"rails", "left_out", "seconds"}, or {"error", "message", "seconds"} when the job did
not form. Commands: {"bytes": N, "count": K} runs K all_reduces and answers a list with, for each,
{"seconds", "sent": {rail: bytes}, "right"}; {} answers what nezha_describe knows about the rails.
An error while working is answered as {"error", "message"}. The end of the input is the end.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
import time
from typing import Any, Dict, List

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


def all_reduces(comm: nezha.Communicator, size: int, count: int) -> List[Dict[str, Any]]:
    """count operations of size bytes, checked element by element."""
    pattern = numpy.arange(size // 4, dtype=numpy.float32) % 251
    factor = sum(range(1, comm.world_size + 1))
    found = []
    for _ in range(count):
        data = pattern * (comm.rank + 1)
        before = sent(comm)
        start = time.monotonic()
        comm.all_reduce(data)
        seconds = time.monotonic() - start
        after = sent(comm)
        found.append({"seconds": seconds, "right": bool((data == pattern * factor).all()),
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
                say(all_reduces(comm, command["bytes"], command["count"]))
            else:
                say(comm.describe("rails"))
        except nezha.Error as error:
            say({"error": type(error).__name__, "message": str(error)})
    comm.close()


if __name__ == "__main__":
    main()
