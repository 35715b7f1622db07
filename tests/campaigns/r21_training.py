"""R21: rails die under a training with DistributedDataParallel; the weights do not notice."""

from __future__ import annotations

import importlib.util
import random
import sys
import time
from typing import Any, Dict, List, Optional, Tuple

from nezha.lab import Lab

from campaigns.campaign import Campaign, Record
from campaigns.job import child_env, start_node
from campaigns.lines import Broken, LineProcess
from campaigns.measure import Figure, percentile
from campaigns.nemesis import Nemesis
from campaigns.rails import RAILS, links

NODES = 2
_STEPS = 2  # of a batch, in which one fault comes
_RETURN_S = 10.0
_START_S = 300.0  # torch takes long to load on a busy machine


class Training(Campaign):
    """The same training twice in the same processes: in peace, and with a fault in every batch."""

    id = "R21"
    title = "rail faults under training"
    wanted = (8, 110, 600)
    budget_s = 150.0

    def run(self, record: Record) -> None:
        if importlib.util.find_spec("torch") is None or importlib.util.find_spec("sklearn") is None:
            raise Broken("torch or scikit-learn is missing: run `make install` and `make test`")
        with Lab(NODES, ["1gbit"] * RAILS) as lab, Nemesis(lab) as nemesis:
            command = [sys.executable, "-m", "campaigns.ddp_rank"]
            env = {"NEZHA_TIMEOUT_S": "60", "NEZHA_LOG_LEVEL": "error"}
            ranks = [start_node(lab, node, f"rank {node}", command,
                                {**child_env(lab.rank_env(node)), **env}) for node in range(NODES)]
            try:
                tell(ranks, None, _START_S)
                self._both(record, ranks, nemesis)
            finally:
                for rank in ranks:
                    rank.end()

    def _both(self, record: Record, ranks: List[LineProcess], nemesis: Nemesis) -> None:
        usual = 0.1
        faults = 0
        for _number, rng in record.faults():
            links_up = wait_for_links(ranks)
            at = time.monotonic() + 0.01
            for rank in ranks:
                rank.send({"do": "steps", "count": _STEPS, "at": at})
            found, usual = self._one(ranks, nemesis, rng, links_up, at, usual)
            record.add(**found)
            faults += 1
        with_faults = same_hash(ranks)
        tell(ranks, {"do": "new"})
        for _ in range(faults):
            tell(ranks, {"do": "steps", "count": _STEPS, "at": 0})
        in_peace = same_hash(ranks)
        record.checked += 2 * faults * _STEPS
        record.notes["weights"] = [with_faults, in_peace]
        if with_faults != in_peace:
            raise Broken(f"{faults} faults changed the weights: {with_faults}, not {in_peace}")

    def _one(self, ranks: List[LineProcess], nemesis: Nemesis, rng: random.Random,
             up: List[Tuple[int, int, int]], at: float, usual: float) -> Tuple[Dict[str, Any], float]:
        node, rail, peer = rng.choice(up)
        nemesis.plan_kill(node, rail, peer, at=at + rng.uniform(0, usual))
        killed = nemesis.killed(node)
        answers = tell(ranks, None)
        end = max(answer["end"] for answer in answers)
        sample = {"node": node, "rail": rail, "sent": killed.sent, "during": killed.at < end}
        return sample, 0.8 * usual + 0.2 * (end - at)

    def figures(self, record: Record) -> List[Figure]:
        during = sum(1 for sample in record.samples if sample["during"])
        sent = percentile([float(sum(s["sent"])) for s in record.samples], 0.5)
        return [Figure("weights that differ", 0.0, 0, ""),  # one breaks the run
                Figure("faults in mid-step", float(during), None, ""),
                Figure("bytes sent by a killed connection, median", sent, None, "")]


def tell(ranks: List[LineProcess], command: Optional[Dict[str, Any]],
         within: float = 90) -> List[Dict[str, Any]]:
    """The ranks' answers to a command, or to one they have already."""
    for rank in ranks if command is not None else []:
        rank.send(command or {})
    return [rank.receive(within) for rank in ranks]


def same_hash(ranks: List[LineProcess]) -> str:
    """Of the weights, which must be equal on all ranks."""
    found = {answer["hash"] for answer in tell(ranks, {"do": "hash"})}
    if len(found) != 1:
        raise Broken(f"the ranks' weights differ: {sorted(found)}")
    return str(found.pop())


def wait_for_links(ranks: List[LineProcess]) -> List[Tuple[int, int, int]]:
    """All links up. Raises Broken when one stays away."""
    deadline = time.monotonic() + _RETURN_S
    while True:
        up = links(dict(enumerate(tell(ranks, {"do": "state"}))))
        if len(up) == NODES * (NODES - 1) * RAILS:
            return up
        if time.monotonic() > deadline:
            raise Broken(f"only {len(up)} links are up {_RETURN_S:g} s after a fault: {up}")
        time.sleep(0.01)
