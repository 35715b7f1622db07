"""The simulation of time beside SimGrid: the same shipped schedules on the same hosts and rails.

`nezha sim` runs waves of NumPy arrays; simgrid_run.cc gives every message of every rank to SimGrid, which
knows flows, links and processors. What both take from the library is its schedules and chunks; rounds,
rails, ports, contention and adding each does for itself. SimGrid is no dependency of the product.
"""

from __future__ import annotations

import json
import subprocess
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Dict, List, Optional, Sequence, Tuple

import numpy as np

from nezha_study.plan.library import ask
from nezha_study.sim import cluster as clusters, forms
from nezha_study.sim.cluster import FRAME_BYTES, Cluster, Tree
from nezha_study.sim.operation import Question, simulate
from nezha_study.sim.waves import Sizes, Wave, plan

Array = np.ndarray[Any, Any]
SOURCE = Path(__file__).with_name("simgrid_run.cc")
HEADER = Path("/usr/include/simgrid/s4u.hpp")
FREE, SHARED, ADRIFT = "no contention", "contention", "hosts adrift"  # kinds of cases
ALLOWED = {FREE: 0.02, SHARED: 0.10, ADRIFT: 0.10}  # differences
ONE = ((1.25e9, 20e-6),)
TWO = ((1.25e9, 20e-6), (1.25e9, 20e-6))
UNEQUAL = ((3.125e9, 20e-6), (1.25e9, 50e-6))
_EVERYBODY = ("direct", "pairwise")  # everybody to everybody, nobody waits


def build(folder: Path) -> Path:
    """Compiles the program that asks SimGrid. Raises CalledProcessError."""
    program = folder / "simgrid_run"
    subprocess.run(["c++", "-std=c++17", "-O2", "-o", str(program), str(SOURCE), "-lsimgrid"], check=True)
    return program


@dataclass(frozen=True)
class Case:
    """An operation on `hosts` hosts. rails: (bytes per second, seconds) of each; tree: pods and how many
    times their uplinks are oversubscribed; differ: hosts begin up to 0.3 ms apart, at 80 to 100 % of the
    rates."""

    collective: str
    algorithm: str
    hosts: int
    size: int
    rails: Tuple[Tuple[float, float], ...]
    tree: Optional[Tuple[int, float]] = None
    differ: bool = False

    @property
    def kind(self) -> str:
        """FREE: a port or uplink is one message's at a time. SHARED: several hosts want one. ADRIFT: they
        do, and hosts also go on at speeds of their own."""
        everybody = self.algorithm in _EVERYBODY and self.collective not in ("gather", "scatter")
        unequal = len(set(self.rails)) > 1
        if self.differ or (self.tree is not None and (everybody or unequal)):
            return ADRIFT
        is_shared = self.collective in ("gather", "reduce") or (unequal and self.algorithm == "bruck")
        if self.collective == "reduce" and unequal:
            return ADRIFT
        return SHARED if self.tree is not None or is_shared else FREE

    def cluster(self) -> Cluster:
        """The hosts, as `nezha sim collective` makes them."""
        made = clusters.uniform(self.hosts, self.rails)
        if self.differ:
            random = np.random.default_rng(self.hosts)
            made.start_s = 3e-4 * random.random(self.hosts)
            made.rate = made.rate * (1 - 0.2 * random.random((self.hosts, len(self.rails))))
        made.tree = None if self.tree is None else Tree(*self.tree)
        return made


@dataclass(frozen=True)
class Compared:
    """Seconds of both, and how much more nezha sim says than SimGrid: 0.01 is one percent."""

    case: Case
    nezha_s: float
    simgrid_s: float
    messages: int

    @property
    def difference(self) -> float:
        """Of SimGrid's time."""
        return self.nezha_s / self.simgrid_s - 1


def compare(case: Case, program: Path) -> Compared:
    """Runs both. All rails take part, as in an operation whose rates are known."""
    cluster = case.cluster()
    found = simulate(cluster, Question(case.collective, case.size, case.algorithm))
    assert len(found.outcome.rails) == len(case.rails), found.why
    messages = _messages(case)
    tree = case.tree or (0, 0)
    head = [f"{case.hosts} {len(case.rails)} {float(cluster.adds[0])}",
            *(f"{rate} {late}" for rate, late in case.rails),
            *(" ".join(map(str, (start, *own))) for start, own in zip(
                np.broadcast_to(cluster.start_s, (case.hosts,)).tolist(),
                np.broadcast_to(cluster.rate, (case.hosts, len(case.rails))).tolist())),
            f"{tree[0]} {tree[1]}",
            f"{int(messages[:, [4, 6]].max()) + 1} {len(messages)}"]
    lines = [" ".join(map(repr, row)) for row in messages.tolist()]
    text = "\n".join(head + [line.replace(".0 ", " ").removesuffix(".0") for line in lines]) + "\n"
    ran = subprocess.run([str(program), "--log=root.thres:error"], input=text, text=True, check=True,
                         stdout=subprocess.PIPE)
    return Compared(case, found.outcome.total_s, float(ran.stdout) - float(cluster.start_s.min()),
                    len(messages))


def _messages(case: Case) -> Array:
    """A row for every message, as simgrid_run.cc reads them: rounds and peers of the shipped schedules,
    sizes of the shipped plan."""
    request = {"collective": case.collective, "bytes": case.size, "world_size": case.hosts,
               "algorithm": case.algorithm, "rails": len(case.rails),
               "rate_gbps": 8e-9 * sum(rate for rate, _ in case.rails) / len(case.rails)}
    made = plan(request)
    sends: Dict[Tuple[int, ...], Tuple[int, int, int, int, int]] = {}
    receives: Dict[Tuple[int, ...], Tuple[int, bool]] = {}
    slices = 1
    for rank in range(case.hosts):
        shipped = ask("explain", {**request, "schedule": True, "rank": rank})["schedule"]
        slices = len(shipped["slices"])
        for number, content in enumerate(shipped["slices"]):
            for turn, steps in enumerate(content["rounds"]):
                for place, step in enumerate(steps):
                    if step["kind"] == "copy":
                        continue
                    peer, tail = step["peer"], (number, step["stage"], step["slot"])
                    if step["kind"] == "send":
                        sends[(rank, peer, *tail)] = (turn, place, *step["parts"], step["stage"])
                    else:
                        receives[(peer, rank, *tail)] = (turn, step["kind"] == "recv_reduce")
    assert sends.keys() == receives.keys()
    ordered = sorted(sends, key=lambda key: (key[0], sends[key][:2]))
    keys = np.array(ordered)
    of_send = np.array([sends[key] for key in ordered])
    of_receive = np.array([receives[key] for key in ordered])
    src, dst, slice_ = keys[:, 0], keys[:, 1], keys[:, 2]
    count = 0 if case.collective == "barrier" else case.size // made.element_bytes
    sizes = Sizes(made, count, case.hosts, exact=True)
    wave = Wave(src, dst, slice_, of_send[:, 2], of_send[:, 3], of_send[:, 4])

    def turn(rank: Array) -> Array:
        """A rank's own slice comes first, so that not everybody sends to rank 0 at first; slices of pairs
        are numbered like that."""
        return slice_ if made.geometry == "pair_slices" else (slice_ - rank) % slices

    rows: List[Array] = []
    for chunk in range(made.chunks):
        size = sizes.of(wave, chunk)
        first = chunk * slices * case.hosts  # programs: chunk by chunk, turn by turn, rank by rank
        rows.append(np.column_stack([src, dst, size + FRAME_BYTES, size * of_receive[:, 1],
                                     first + turn(src) * case.hosts + src,
                                     of_send[:, 0],
                                     first + turn(dst) * case.hosts + dst,
                                     of_receive[:, 0]]))
    return np.concatenate(rows)


def cases(hosts: int, trees: Sequence[Optional[Tuple[int, float]]]) -> List[Case]:
    """Every algorithm at three sizes, on three kinds of rails."""
    found = []
    for rails in (ONE, TWO, UNEQUAL):
        for collective, algorithm in forms.known():
            for size in (0,) if collective == "barrier" else (32 << 10, 1 << 20, 4 << 20):
                found += [Case(collective, algorithm, hosts, size, rails, tree) for tree in trees]
    return found


def different_cases(hosts: int, trees: Sequence[Optional[Tuple[int, float]]]) -> List[Case]:
    """Every algorithm where hosts begin at times of their own and have rates of their own."""
    return [replace(case, differ=True) for case in cases(hosts, trees) if case.size in (0, 1 << 20)]


def large_cases() -> List[Case]:
    """512 hosts."""
    return [Case(*of, 512, 4 << 20, rails, tree) for rails in (ONE, UNEQUAL) for tree in (None, (32, 2.0))
            for of in (("all_reduce", "halving_doubling"), ("all_reduce", "recursive_doubling"),
                       ("all_reduce", "ring"), ("broadcast", "tree"), ("reduce", "chain"),
                       ("all_gather", "direct"))]


def every_case() -> List[Case]:
    """All of the published table."""
    return [*cases(16, [None, (4, 2.0), (4, 4.0)]), *cases(64, [None, (16, 2.0), (8, 4.0)]),
            *different_cases(16, [None, (4, 2.0), (4, 4.0)]), *different_cases(64, [None, (8, 4.0)]),
            *large_cases()]


def row(found: Compared) -> Dict[str, Any]:
    """The comparison as JSON."""
    case = found.case
    return {"collective": case.collective, "algorithm": case.algorithm, "hosts": case.hosts,
            "size": case.size, "differ": case.differ, "rails": [list(rail) for rail in case.rails],
            "tree": case.tree, "messages": found.messages, "nezha_us": 1e6 * found.nezha_s,
            "simgrid_us": 1e6 * found.simgrid_s, "difference": found.difference, "kind": case.kind}


def text(found: List[Compared]) -> str:
    """All of them as JSON."""
    return json.dumps([row(each) for each in found], indent=2)
