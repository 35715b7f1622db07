"""A job of one rank a node, whose ranks do what a test asks while the test changes the network."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from typing import Any, Dict, List, Optional

from nezha.lab import Lab

_WORKER = os.path.join(os.path.dirname(__file__), "rails_worker.py")
# Only a broken library takes this long to answer; it is killed then, which fails the test.
_ANSWER_S = 45.0


class Job:
    """Ranks on all nodes of `lab`, ended with the block. settings: configuration of every rank;
    rails: NEZHA_RAILS of every rank, None = the devices of its node, by name."""

    def __init__(self, lab: Lab, rails: Optional[List[Optional[str]]] = None,
                 **settings: Any) -> None:
        settings.setdefault("timeout_s", 20)
        self.timeout_s = settings["timeout_s"]
        settings.setdefault("log_level", "error")
        self.ranks = []
        for node in range(len(lab)):
            env = dict(lab.rank_env(node))
            chosen = rails[node] if rails is not None else None
            if chosen is not None:
                env["NEZHA_RAILS"] = chosen
            self.ranks.append(lab.popen(node, [sys.executable, _WORKER, json.dumps(settings)],
                                        env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        text=True))
        # How each rank started: see rails_worker.
        self.start: List[Dict[str, Any]] = self._answers()

    def __enter__(self) -> "Job":
        return self

    def __exit__(self, *_: object) -> None:
        for rank in self.ranks:
            rank.stdin.close()
        for rank in self.ranks:
            try:
                rank.wait(10)
            except subprocess.TimeoutExpired:
                rank.kill()
                rank.wait()
            rank.stdout.close()

    def _answers(self) -> List[Any]:
        def end() -> None:
            for rank in self.ranks:
                rank.kill()

        watchdog = threading.Timer(_ANSWER_S, end)
        watchdog.start()
        try:
            lines = [rank.stdout.readline() for rank in self.ranks]
        finally:
            watchdog.cancel()
        assert all(lines), f"ranks that died or hung: {[r for r, x in enumerate(lines) if not x]}"
        return [json.loads(line) for line in lines]

    def tell(self, command: Dict[str, Any]) -> List[Any]:
        """The answers of all ranks to one command."""
        for rank in self.ranks:
            rank.stdin.write(json.dumps(command) + "\n")
            rank.stdin.flush()
        return self._answers()

    def describe(self) -> List[Dict[str, Any]]:
        """What each rank knows about its rails."""
        return self.tell({})

    def all_reduce(self, size: int, count: int = 1) -> List[List[Dict[str, Any]]]:
        """operate() of all_reduces."""
        return self.operate("all_reduce", size, count)

    def operate(self, operation: str, size: int, count: int) -> List[List[Dict[str, Any]]]:
        """By operation, then rank: {"seconds", "sent"}. Every result was checked."""
        answers = self.tell({"operation": operation, "bytes": size, "count": count})
        for rank, answer in enumerate(answers):
            assert isinstance(answer, list), f"rank {rank}: {answer}"
            assert all(op["right"] for op in answer), f"rank {rank}: wrong result"
        return [list(ops) for ops in zip(*answers)]


def share(operation: List[Dict[str, Any]], device: str) -> float:
    """The part of all ranks' bytes of one operation that went through rails of that name."""
    total = sum(sum(rank["sent"].values()) for rank in operation)
    return sum(rank["sent"].get(device, 0) for rank in operation) / total


def seconds(operation: List[Dict[str, Any]]) -> float:
    """How long the slowest rank needed."""
    return max(rank["seconds"] for rank in operation)
