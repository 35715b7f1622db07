"""Breaks the rails of a lab, and proves that it did."""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass
from typing import Any, Dict, List, Optional

from nezha.lab import Lab

from campaigns.job import child_env, start_node
from campaigns.lines import Broken, LineProcess


@dataclass
class Killed:
    """Connections that were destroyed. sent: bytes that each had sent until then."""

    at: float
    sent: List[int]


class Nemesis:
    """One helper a node. End with close(), or use as a context manager."""

    def __init__(self, lab: Lab) -> None:
        self._lab = lab
        command = [sys.executable, "-m", "campaigns.nemesis_helper"]
        self._helpers: List[LineProcess] = [
            start_node(lab, node, f"nemesis of node {node}", command, child_env({}))
            for node in range(len(lab))]
        for helper in self._helpers:
            helper.receive()

    def __enter__(self) -> "Nemesis":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Ends the helpers."""
        for helper in self._helpers:
            helper.end()

    def address(self, node: int, rail: int) -> str:
        """Of a node on a rail."""
        return self._lab.state.nodes[node].ports[rail].address.partition("/")[0]

    def plan_kill(self, node: int, rail: int, peer: Optional[int], **when: Any) -> None:
        """Will destroy the connections of a node on a rail, to one peer or to all (None).

        when: at=T, or bytes=N and wait=S; see the helper.
        """
        self._helpers[node].send({
            "local": self.address(node, rail),
            "remote": "" if peer is None else self.address(peer, rail), **when})

    def killed(self, node: int) -> Killed:
        """What plan_kill() did. Raises Broken when it destroyed nothing."""
        answer: Dict[str, Any] = self._helpers[node].receive()
        if "error" in answer:
            raise Broken(f"connections cannot be destroyed: {answer['error']}")
        if not answer["sent"]:
            raise Broken(f"the fault did not happen: node {node} had no such connection")
        return Killed(answer["at"], answer["sent"])

    def black_hole(self, node: int, rail: int, direction: str) -> float:
        """Packets of a node on a rail vanish; when that began, at the earliest."""
        before = time.monotonic()
        self._lab.cut(node, rail, silent=True, direction=direction)
        return before

    def dropped(self, node: int, rail: int) -> int:
        """Packets that a black hole has swallowed."""
        return sum(port["dropped"] for port in self._lab.facts(node, rail))

    def restore(self, node: int, rail: int) -> float:
        """Ends every fault of a node on a rail; when it began to end."""
        before = time.monotonic()
        self._lab.restore(node, rail)
        return before
