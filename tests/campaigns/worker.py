"""One rank under the command of a campaign: JSON lines in, one JSON line out for each.

Arguments: the configuration, and the list of cases, as JSON. The first answer is {"pid"} or {"error"}.
Commands (times are CLOCK_MONOTONIC):
  {"do": "ops", "cases": [index, ...], "at": T}   runs them in order from T on; answers {"ops":
      [[start, end, right], ...]} and, when one failed, {"error": {...}} after those before it
      With "together": true all are called before one is waited for. "dies": {"rank", "operation",
      "after"}: that rank says {"dies": T} when it calls the operation of that number, and is ended by the
      kernel at T, so many seconds later, wherever it is then
  {"do": "state"}                                  rails, counters, descriptors, threads, memory, and the
      algorithms of the latest collectives and of those that failed
  {"do": "hashes"}                                 of every case's reference
  {"do": "shrink", "case": index}                  goes on with the survivors: {"rank", "world",
      "shrunk", "end", "right"}
  {"do": "abort", "name", "what", "at", "aborter"} see _abort
An error is {"error": {"type", "message", "at"}}. The end of the input is the end.
"""

from __future__ import annotations

import contextlib
import faulthandler
import json
import os
import signal
import sys
import threading
import time
from typing import Any, Callable, Dict, Iterator, List

import nezha

from campaigns.cases import VARIANTS, Case, Prepared
from campaigns.descriptors import held
from campaigns.moments import until


def say(answer: Any) -> None:
    """One line to the campaign."""
    print(json.dumps(answer), flush=True)


def told(error: Exception) -> Dict[str, Any]:
    """An error, and when it came."""
    return {"type": type(error).__name__, "message": str(error), "at": time.monotonic()}


class Rank:
    """This process's communicator and what it is asked to do with it."""

    def __init__(self, config: Dict[str, Any], cases: List[Case]) -> None:
        self._cases = cases
        self._comm = nezha.init(config=config)
        self._prepare()

    def _prepare(self) -> None:
        self._prepared = [Prepared(case, self._comm.rank, self._comm.world_size)
                          for case in self._cases]
        self._turns = [0] * len(self._cases)

    def _together(self, cases: List[int]) -> Iterator[List[Any]]:
        """Calls all of them, and then yields [start, end, right] of one after the other."""
        variants = [self._turns[index] % VARIANTS for index in cases]
        for index, variant in zip(cases, variants):
            self._prepared[index].fill(variant)
        start = time.monotonic()
        works = [self._prepared[index].start(self._comm, variant)
                 for index, variant in zip(cases, variants)]
        for index, variant, work in zip(cases, variants, works):
            if self._cases[index].async_op:
                work.wait()
            end = time.monotonic()
            self._turns[index] += 1
            yield [start, end, self._prepared[index].right(variant)]

    def ops(self, command: Dict[str, Any]) -> Dict[str, Any]:
        """See the head of the file."""
        until(command.get("at", 0))
        done: List[Any] = []
        try:
            cases = command["cases"]
            groups = [cases] if command.get("together") else [[index] for index in cases]
            for number, group in enumerate(groups):
                self._maybe_die(command.get("dies") or {}, number)
                for operation in self._together(group):
                    done.append(operation)
        except nezha.Error as error:
            return {"ops": done, "error": told(error)}
        return {"ops": done}

    def _maybe_die(self, how: Dict[str, Any], number: int) -> None:
        if (how.get("rank"), how.get("operation")) == (self._comm.rank, number):
            say({"dies": time.monotonic() + how["after"]})
            signal.setitimer(signal.ITIMER_REAL, how["after"])  # nobody catches SIGALRM

    def state(self, _command: Dict[str, Any]) -> Dict[str, Any]:
        """What the library knows, and what this process holds."""
        with open("/proc/self/status", encoding="ascii") as file:
            status = dict(line.split(":", 1) for line in file)
        collectives = [each for each in self._comm.flight()["operations"] if "algorithm" in each]
        return {"rails": self._comm.rails(), "stats": self._comm.stats(),
                "algorithms": sorted({each["algorithm"] for each in collectives}),
                "failed": [each["algorithm"] for each in collectives if each["state"] == "failed"],
                "descriptors": held(),
                "threads": int(status["Threads"]), "rss_kib": int(status["VmRSS"].split()[0])}

    def hashes(self, _command: Dict[str, Any]) -> List[Any]:
        """By case."""
        return [each.hashes() for each in self._prepared]

    def shrink(self, command: Dict[str, Any]) -> Dict[str, Any]:
        """The survivors' communicator takes the place of this one."""
        old = self._comm
        self._comm = old.shrink()
        shrunk = time.monotonic()
        old.close()
        self._prepare()
        right = next(self._together([command["case"]]))[2]
        return {"rank": self._comm.rank, "world": self._comm.world_size, "shrunk": shrunk,
                "end": time.monotonic(), "right": right}

    def abort(self, command: Dict[str, Any]) -> Dict[str, Any]:
        """Calls a collective ("what": "ops", case after case) or a wait that nobody answers ("recv",
        "absent": a barrier that the aborter does not call) on a communicator of its own; on rank
        "aborter" another thread aborts it at "at". Answers when it "called", when the last call
        "began", how it ended ("error"), and the seconds that close() took ("closed")."""
        rank, world = self._comm.rank, self._comm.world_size
        comm = self._comm.create_group(list(range(world)), command["name"])
        called: List[float] = []

        def call() -> None:
            until(command["at"])
            called.append(time.monotonic())
            comm.abort()

        mine = rank == command["aborter"]
        thread = threading.Thread(target=call)
        if mine:
            thread.start()
        answer: Dict[str, Any] = {"error": None}
        began: List[float] = []
        try:
            self._block(comm, command, mine, began)
        except nezha.Error as error:
            answer["error"] = told(error)
        if mine:
            thread.join()
        start = time.monotonic()
        comm.close()
        return {**answer, "called": called[0] if called else None, "began": began[-1],
                "closed": time.monotonic() - start}

    def _block(self, comm: Any, command: Dict[str, Any], aborter: bool, began: List[float]) -> None:
        """Blocks until an error comes; returns only when none came for far too long."""
        prepared = self._prepared[command["case"]]
        if command["what"] == "absent" and aborter:
            until(command["at"] + 0.05)
        began.append(time.monotonic())
        if command["what"] == "recv":
            comm.recv(bytearray(64), (comm.rank + 1) % comm.world_size)
        if command["what"] == "absent":
            comm.barrier()
        deadline = command["at"] + 5.0
        while time.monotonic() < deadline:
            prepared.fill(0)
            began.append(time.monotonic())
            work = prepared.start(comm, 0)
            if prepared.case.async_op:
                work.wait()

    def obey(self, command: Dict[str, Any]) -> Any:
        """The answer to one command."""
        known: Dict[str, Callable[[Dict[str, Any]], Any]] = {
            "ops": self.ops, "state": self.state, "hashes": self.hashes, "shrink": self.shrink,
            "abort": self.abort}
        try:
            return known[command["do"]](command)
        except nezha.Error as error:
            return {"error": told(error)}

    def close(self) -> None:
        """Leaves in order."""
        self._comm.close()


def main() -> None:
    """Joins, then obeys."""
    faulthandler.register(signal.SIGUSR1, all_threads=True)  # where it is when it hangs
    with contextlib.suppress(OSError):
        os.nice(-10)  # its wire is to be measured, not this machine's other work
    try:
        rank = Rank(json.loads(sys.argv[1]), [Case(**each) for each in json.loads(sys.argv[2])])
    except nezha.Error as error:
        say({"error": told(error)})
        return
    say({"pid": os.getpid()})
    for line in sys.stdin:
        say(rank.obey(json.loads(line)))
    with contextlib.suppress(nezha.Error):  # after a failed operation there is nothing to leave
        rank.close()


if __name__ == "__main__":
    main()
