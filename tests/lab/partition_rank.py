"""One rank of a job in a network that is cut: it reduces, and shrinks after every error.

Says lines of JSON: {"ready": true} after the first operation; {"ranks": [global ranks]} when a
communicator that shrink() gave has reduced; {"error", "message"} when shrink() fails, which ends it. The
end of the input ends it, too.
"""

from __future__ import annotations

import json
import sys
import threading
from typing import Any, Dict

import numpy

import nezha


def say(answer: Dict[str, Any]) -> None:
    """One line to the test."""
    print(json.dumps(answer), flush=True)


def main() -> None:
    """Reduces until the input ends."""
    ended = threading.Event()
    threading.Thread(target=lambda: (sys.stdin.read(), ended.set()), daemon=True).start()
    comm = nezha.init(config=json.loads(sys.argv[1]))
    mine = comm.rank
    comm.all_reduce(numpy.zeros(1000))
    say({"ready": True})
    is_new = False
    while not ended.is_set():
        try:
            present = numpy.zeros(64)
            present[mine] = 1
            comm.all_reduce(present)
            if is_new:
                say({"ranks": [int(rank) for rank in present.nonzero()[0]]})
            is_new = False
        except nezha.Error:
            try:
                lost, comm = comm, comm.shrink()
                lost.close()
                is_new = True
            except nezha.Error as error:
                say({"error": type(error).__name__, "message": str(error)})
                return


if __name__ == "__main__":
    main()
