"""A persistent job that fills a lab: what every campaign works with."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from typing import Any, Dict, Iterator, List, Mapping, Optional, Sequence, Set

from nezha.lab import Lab

from campaigns.campaign import Record
from campaigns.cases import Case
from campaigns.lines import Broken, LineProcess
from campaigns.measure import Baseline, Operation

_HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
_START_S = 300.0  # a busy machine takes long to load everything and to make the data
_LEAD_S = 0.004  # between a command and the moment it names
_CALIBRATION = 8  # fault-free operations of each case before the first fault


def child_env(extra: Mapping[str, str]) -> Dict[str, str]:
    """Environment in which a child finds this package, and nezha as this process does."""
    import nezha

    package = os.path.dirname(os.path.dirname(os.path.abspath(nezha.__file__)))
    path = os.pathsep.join(p for p in (_HERE, package, os.environ.get("PYTHONPATH", "")) if p)
    return {"PYTHONPATH": path, **extra}


def start_node(lab: Lab, node: int, name: str, command: Sequence[str],
               env: Mapping[str, str]) -> LineProcess:
    """A line process on a node."""
    return LineProcess(name, lab.popen(node, list(command), env=env, stdin=subprocess.PIPE,
                                       stdout=subprocess.PIPE, text=True))


class Job:
    """Ranks on the nodes of `lab`. settings: configuration of every rank. env: added to it; its
    PYTHONPATH and `python` choose another build."""

    def __init__(self, lab: Lab, cases: Sequence[Case], *, env: Optional[Mapping[str, str]] = None,
                 python: str = sys.executable, **settings: Any) -> None:
        settings.setdefault("timeout_s", 30)
        settings.setdefault("log_level", "error")
        self.lab, self.cases = lab, list(cases)
        self.baseline = Baseline()
        self.checked = 0
        given = json.dumps([case.to_json() for case in cases])
        command = [python, "-m", "campaigns.worker", json.dumps(settings), given]
        self.ranks: Dict[int, LineProcess] = {
            rank: start_node(lab, lab.node_of(rank), f"rank {rank}", command,
                             {**child_env(lab.rank_env(rank)), **(env or {})})
            for rank in range(lab.ranks)}
        try:
            for rank, answer in self.collect(within=_START_S).items():
                if "error" in answer:
                    raise Broken(f"rank {rank} did not start: {answer['error']}")
        except BaseException:
            self.kill()
            raise

    def send(self, command: Dict[str, Any], ranks: Optional[Sequence[int]] = None) -> None:
        """To all ranks, or some."""
        for rank in self.ranks if ranks is None else ranks:
            self.ranks[rank].send(command)

    def collect(self, ranks: Optional[Sequence[int]] = None, within: float = 60.0) -> Dict[int, Any]:
        """One answer of each rank. Raises Broken when one hangs or has died."""
        found, deadline = {}, time.monotonic() + within
        for rank in list(self.ranks) if ranks is None else ranks:
            found[rank] = self.ranks[rank].receive(max(0.1, deadline - time.monotonic()))
        return found

    def tell(self, command: Dict[str, Any], within: float = 60.0) -> Dict[int, Any]:
        """send() and collect()."""
        self.send(command)
        return self.collect(within=within)

    def start_ops(self, cases: Sequence[int], lead: float = _LEAD_S, together: bool = False,
                  dies: Optional[Mapping[str, Any]] = None) -> float:
        """Begins operations on all ranks, one after another or `together`; returns when they begin. dies:
        which rank ends itself in them, see the worker."""
        at = time.monotonic() + lead
        self.send({"do": "ops", "cases": list(cases), "at": at, "together": together, "dies": dies})
        return at

    def finish_ops(self, cases: Sequence[int], within: float = 60.0) -> List[Operation]:
        """The operations of start_ops(), every one of which was right. Raises Broken."""
        answers = self.collect(within=within)
        for rank, answer in answers.items():
            if "error" in answer:
                raise Broken(f"rank {rank} failed: {answer['error']}")
            for case, op in zip(cases, answer["ops"]):
                if not op[2]:
                    raise Broken(f"rank {rank}: wrong bits in {self.cases[case]}")
        self.checked += len(cases)
        found = []
        for i, case in enumerate(cases):
            starts = [answer["ops"][i][0] for answer in answers.values()]
            ends = [answer["ops"][i][1] for answer in answers.values()]
            found.append(Operation(case, min(starts), max(starts), max(ends)))
        return found

    def ops(self, cases: Sequence[int], within: float = 60.0) -> List[Operation]:
        """Runs operations on all ranks."""
        self.start_ops(cases)
        return self.finish_ops(cases, within)

    def calibrate(self, rounds: int = _CALIBRATION) -> None:
        """Fault-free operations of every case: the references, and the medians."""
        for operation in self.ops([c for _ in range(rounds) for c in range(len(self.cases))]):
            self.baseline.learn(operation)
        self.same_bits()

    def same_bits(self) -> None:
        """Raises Broken unless all ranks have the same reference of each all_reduce and so on."""
        answers = self.tell({"do": "hashes"})
        for index, case in enumerate(self.cases):
            if case.kind in ("all_reduce", "all_gather", "broadcast"):
                found = {rank: tuple(answer[index]) for rank, answer in answers.items()}
                if len(set(found.values())) != 1:
                    raise Broken(f"{case}: results differ among ranks: {found}")

    def state(self) -> Dict[int, Dict[str, Any]]:
        """By rank; see the worker."""
        return self.tell({"do": "state"})

    def algorithms(self, failed: bool = False) -> Set[str]:
        """By which the latest operations of all ranks ran, or those that failed."""
        found = self.state().values()
        return {name for each in found for name in each["failed" if failed else "algorithms"]}

    def signal(self, rank: int, number: int) -> float:
        """Sends a signal to a rank; when."""
        self.ranks[rank].process.send_signal(number)
        return time.monotonic()

    def kill_rank(self, rank: int) -> float:
        """SIGKILL; when. The rank is no part of the job any more."""
        at = self.signal(rank, signal.SIGKILL)
        self.ranks.pop(rank).end()
        return at

    def died(self, rank: int) -> float:
        """When a rank ended itself, as start_ops() had told it. It is no part of the job any more."""
        at: float = self.ranks[rank].receive()["dies"]
        status = self.ranks.pop(rank).end()
        if status != -signal.SIGALRM:
            raise Broken(f"the fault did not happen: rank {rank} ended with status {status}")
        return at

    def close(self) -> None:
        """Ends all ranks in order."""
        for rank in self.ranks.values():
            with contextlib.suppress(OSError):
                assert rank.process.stdin is not None
                rank.process.stdin.close()
        for name, rank in self.ranks.items():
            if rank.end() != 0:
                raise Broken(f"rank {name} ended with status {rank.process.returncode}")

    def kill(self) -> None:
        """Ends all ranks at once."""
        for rank in self.ranks.values():
            rank.process.kill()
        for rank in self.ranks.values():
            rank.end()
        self.ranks = {}


@contextlib.contextmanager
def job_in(lab: Lab, cases: Sequence[Case], record: Record, **settings: Any) -> Iterator[Job]:
    """A calibrated job; closed in order, or killed when the block fails. What it did is recorded."""
    settings.setdefault("flight_dump", str(record.dumps.absolute()))
    job = Job(lab, cases, **settings)
    try:
        job.calibrate()
        yield job
    except BaseException:
        job.kill()
        raise
    finally:
        record.checked += job.checked
        record.noise += job.baseline.noise
    job.close()
