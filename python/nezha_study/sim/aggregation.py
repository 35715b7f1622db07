"""An all_reduce through a tree of aggregation nodes, chunk by chunk, beside the algorithms of hosts.

Every host sends its chunks to its leaf over one rail; a node adds a chunk when the last of its children's
is there, and sends the sum up; the root's result comes down the same tree. A wire and a node's port carry
one chunk after the other, each way for itself; a node adds with one thread. Of a host so many bytes are
under way at a time (docs/aggregation.md). Switch chips that add packets: simulation/switch.

With S bytes in m chunks of c over h levels of at most k children, and ports that carry what all children
send at once, the closed form (one level: the source's burst, 2 o + 2 (wire + c / B) + the rest of the
chunks) is
  2 h latency + (2 h) c / B + h k c / adds + (m - 1) max(c / B, k c / adds)

The shipped AggregationShares decides which way an operation goes, and the part of the tree in one that is
cut (nezha_query "cut"). Units: seconds, bytes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

import numpy as np

from nezha_tools.cli.progress import Step
from nezha_tools.cli.errors import PlanError
from nezha_tools.cli.validation import refused, whole
from ..plan.library import ask
from nezha_tools.cli.units import gbps
from . import results
from .cluster import FRAME_BYTES, Cluster, with_rails
from .operation import Question, simulate

Array = np.ndarray[Any, Any]
CHUNK_BYTES = 256 * 1024  # at most, of a node (docs/aggregation.md)
WINDOW_BYTES = 4 << 20  # that a host has under way
_LEARNT = 48  # operations after which the cut has long stopped moving
_SAME = 0.01
_WAYS = ("hosts", "node", "both")


@dataclass(frozen=True)
class Nodes:
    """The tree. radix: children of a node; rail: of the hosts, by which they reach it; port: bytes per
    second of a node's own port (None: as much as its children's wires together); adds: bytes per second
    that a node adds. Raises PlanError for what cannot be."""

    radix: int
    rail: int
    port: Optional[float]
    adds: float

    def __post_init__(self) -> None:
        whole("radix", self.radix, 2, 4096)
        if not self.adds > 0:
            raise refused("adds", self.adds, "above 0 bytes per second")

    def levels(self, hosts: int) -> List[int]:
        """How many children there are below each level of nodes, from the hosts up."""
        below = [hosts]
        while below[-1] > self.radix:
            below.append(-(-below[-1] // self.radix))
        return below


def through_nodes(cluster: Cluster, nodes: Nodes, size: int) -> float:
    """Seconds until the last host has the whole result of `size` bytes."""
    whole("rail", nodes.rail, 0, cluster.rails - 1)
    tree = _Tree(cluster, nodes)
    chunks = max(1, -(-size // CHUNK_BYTES))
    window = max(1, WINDOW_BYTES // CHUNK_BYTES)
    wire = np.broadcast_to(cluster.rate[:, nodes.rail], (cluster.hosts,))
    late = float(cluster.latency_s[nodes.rail])
    start = np.broadcast_to(cluster.start_s, (cluster.hosts,))
    sent: Array = start.copy()
    results: List[Array] = []
    for number in range(chunks):
        carried = min(CHUNK_BYTES, size - number * CHUNK_BYTES) + FRAME_BYTES
        begin = sent if number < window else np.maximum(sent, results[number - window])
        sent = begin + carried / wire
        results.append(tree.chunk(sent + late, carried))
    return float((results[-1] + cluster.gap_s).max() - start.min())


class _Tree:
    """The nodes' clocks: until when ports receive and send, by level, and processors add; and until when
    the hosts' wires bring results."""

    def __init__(self, cluster: Cluster, nodes: Nodes) -> None:
        self._cluster, self._nodes = cluster, nodes
        self._below = nodes.levels(cluster.hosts)
        self._first = [np.arange(0, below, nodes.radix) for below in self._below]
        self._children = [np.diff(np.append(first, below))
                          for first, below in zip(self._first, self._below)]
        self._wire = np.broadcast_to(cluster.rate[:, nodes.rail], (cluster.hosts,))
        fastest = float(self._wire.max())
        self._port = nodes.port if nodes.port is not None else nodes.radix * fastest
        self._into, self._adder, self._up, self._down = (
            [np.zeros(first.size) for first in self._first] for _ in range(4))
        self._taken = np.zeros(cluster.hosts)

    def chunk(self, arrivals: Array, carried: float) -> Array:
        """When each host has the result of a chunk that is at the leaves at `arrivals`."""
        late = float(self._cluster.latency_s[self._nodes.rail])
        for level, (first, children) in enumerate(zip(self._first, self._children)):
            together = children * carried
            self._into[level] = np.maximum(np.maximum.reduceat(arrivals, first),
                                           self._into[level] + together / self._port)
            self._adder[level] = (np.maximum(self._into[level], self._adder[level])
                                  + self._cluster.gap_s * children + together / self._nodes.adds)
            ready = self._adder[level]
            if level + 1 < len(self._below):
                self._up[level] = np.maximum(ready, self._up[level]) + carried / self._between()
                arrivals = self._up[level] + late
        for level in reversed(range(len(self._below))):
            together = self._children[level] * carried
            begun = np.maximum(ready, self._down[level])
            self._down[level] = begun + together / self._port
            parents = np.repeat(np.arange(self._children[level].size), self._children[level])
            if level == 0:
                self._taken = np.maximum(np.maximum(begun[parents], self._taken) + carried / self._wire,
                                         self._down[0][parents])
                return self._taken + late
            ready = np.maximum(begun[parents] + carried / self._between(),
                               self._down[level][parents]) + late
        raise AssertionError("a tree has a level")

    def _between(self) -> float:
        """Bytes per second of one chunk from node to node: of the child's port, or the host's rate where
        ports are as wide as all children together."""
        return float(self._wire.max()) if self._nodes.port is None else self._port


@dataclass(frozen=True)
class Choice:
    """What the library settles on. way: "hosts", "node" or "both"; share: the nodes' part in one that is
    cut; operations: after how many its share stays within one percent; time_s: of an operation then."""

    way: str
    share: float
    operations: int
    time_s: float


def choose(cluster: Cluster, nodes: Nodes, question: Question) -> Choice:
    """Runs operations whose ways AggregationShares chooses, as ranks that all measure the same."""
    may_cut = cluster.rails > 1
    others = [rail for rail in range(cluster.rails) if rail != nodes.rail]
    done: List[Dict[str, float]] = []
    shares: List[float] = []
    taken: List[Tuple[str, float]] = []
    known: Dict[Tuple[str, int], Tuple[float, float]] = {}
    for _ in range(_LEARNT):
        answer = ask("cut", {"bytes": question.size, "may_cut": may_cut, "operations": done})
        way, part = answer["way"], _whole_elements(question.size, answer["share"])
        key = way, part if way == "both" else 0
        if key not in known:
            known[key] = _parts(cluster, nodes, question, way, part, others)
        hosts_s, node_s = known[key]
        done.append({"hosts_us": 1e6 * hosts_s, "node_us": 1e6 * node_s})
        shares.append(answer["share"])
        taken.append((way, max(hosts_s, node_s)))
    last = [way for way, _ in taken[-16:]]
    settled = max(_WAYS, key=last.count)
    changed = [number for number, share in enumerate(shares, 1) if abs(share - shares[-1]) > _SAME]
    share = {"hosts": 0.0, "node": 1.0, "both": shares[-1]}[settled]
    return Choice(settled, share, changed[-1] if changed else 0,
                  next(time for way, time in reversed(taken) if way == settled))


def _whole_elements(size: int, share: float) -> int:
    return int(size * share) // 4 * 4


def _parts(cluster: Cluster, nodes: Nodes, question: Question, way: str, part: int,
           others: Sequence[int]) -> Tuple[float, float]:
    """Seconds of the hosts' part and of the nodes'. A cut operation leaves the nodes' rail to them."""
    if way == "hosts":
        return simulate(cluster, question).outcome.total_s, 0.0
    if way == "node":
        return 0.0, through_nodes(cluster, nodes, question.size)
    rest = Question("all_reduce", question.size - part, question.algorithm, nominal=question.nominal)
    return (simulate(with_rails(cluster, others), rest).outcome.total_s,
            through_nodes(cluster, nodes, part))


def run(hosts: Sequence[int], sizes: Sequence[int], make: Callable[[int], Cluster], nodes: Nodes,
        algorithm: str, step: Step) -> Dict[str, Any]:
    """Every count of hosts and size: over hosts, through the nodes, and what the library settles on."""
    rows: List[Dict[str, Any]] = []
    advance: Callable[[Any], None] = step("all_reduce", len(hosts) * len(sizes))
    for count in hosts:
        cluster = make(count)
        if count < 2:
            raise refused("nodes", count, "2 or more")
        if cluster.changes or cluster.tree is not None:
            raise PlanError("aggregation nodes are simulated without --change and --tree")
        for size in sizes:
            question = Question("all_reduce", size, algorithm)
            over = simulate(cluster, question)
            found = choose(cluster, nodes, question)
            rows.append({
                "hosts": count, "size": size, "algorithm": over.plan.algorithm,
                "levels": len(nodes.levels(count)), "hosts_us": 1e6 * over.outcome.total_s,
                "hosts_shares": [rail["share"] for rail in results.rails(cluster, over)],
                "nodes_us": 1e6 * through_nodes(cluster, nodes, size), "way": found.way,
                "share": found.share, "operations": found.operations, "time_us": 1e6 * found.time_s})
            advance(None)
    return {"rows": rows, "radix": nodes.radix, "rail": nodes.rail, "adds_gb_per_s": nodes.adds / 1e9,
            "port_gbps": None if nodes.port is None else gbps(nodes.port), "assumptions": [
                f"a host sends chunks of at most {CHUNK_BYTES >> 10} KiB and has {WINDOW_BYTES >> 20} "
                "MiB under way; a node adds with one thread, and its port sends and receives at once",
                "ranks compare their times after every operation; the library does so as long as "
                "something changes, and then more and more rarely",
                "of a cut operation the hosts' part leaves the nodes' rail to them", *results.ASSUMED]}
