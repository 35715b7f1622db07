"""The dictionaries that Communicator.rails(), stats() and stragglers() return, for type checkers.

docs/statistics.md says what each key means and has its unit. Keys may be added.
"""

from __future__ import annotations

from typing import Any, List, Optional, TypedDict


class RailTransfers(TypedDict):
    """By which rule the rail got its transfers: rails()[i]["transfers"]."""

    only: int
    times: int
    share: int
    backlog: int
    probe: int
    again: int


class RailPeer(TypedDict):
    """A connection of a rail: rails()[i]["peers"][j]."""

    rank: int
    lane: int
    up: bool
    suspect: bool
    on_probation: bool
    in_flight_frames: int
    epoch: int
    path: str
    rate_bytes_per_s: float


class Rail(TypedDict):
    """One of this rank's rails: rails()[i]."""

    name: str
    device: str
    address: str
    transport: str
    provider: str
    mtu: int
    rate_bytes_per_s: float
    rate_measured: bool
    latency_s: float
    state: str
    bytes_sent: int
    bytes_received: int
    shm_bytes_sent: int
    shm_bytes_received: int
    backlog_bytes: int
    transfers: RailTransfers
    peers: List[RailPeer]


class AggregatedCommunicator(TypedDict):
    """A communicator that may use the aggregation node."""

    comm: int
    stage: str
    operations: int
    operations_cut: int
    coordination_rounds: int
    recoveries: int
    recovered_operations: int
    served_bytes: int
    reduced_bytes: int


class Aggregation(TypedDict):
    """stats()["aggregation"]."""

    node: str
    port: int
    device: str
    bytes_sent: int
    bytes_received: int
    state: str
    sessions: int
    sessions_lost: int
    last_reason: str
    communicators: List[AggregatedCommunicator]


class _OfAJobWithANode(TypedDict, total=False):
    aggregation: Aggregation


class OperationsOfSize(TypedDict):
    """Operations of one kind and size: stats()["operations"][i]."""

    collective: str
    bytes_max: int
    count: int
    bytes: int
    seconds: float


class Stats(_OfAJobWithANode):
    """The counters of stats()."""

    operations_begun: int
    operations: List[OperationsOfSize]
    messages_gated: int
    messages_waited: int
    messages_diverted: int
    reservations_requested: int
    reservations_refused: int
    authentication: str
    retransmitted: int
    endpoints_lost: int
    links_suspected: int
    links_recovered: int
    links_joined: int
    dials: int
    hedged: int
    reconciled: int
    heartbeats: int
    frames_sent: int
    frames_received: int
    acks_sent: int
    send_calls: int
    receive_calls: int
    polls: int
    sleeps: int
    handovers: int
    buffer_allocations: int
    buffer_bytes_in_use: int
    memory_ranks: int
    memory_bytes_sent: int
    memory_bytes_received: int
    host_of: List[int]


class LateRank(TypedDict):
    """What another rank does: stragglers()["ranks"][i]."""

    rank: int
    global_rank: int
    called: bool
    heard_s_ago: Optional[float]
    last: Any
    open: bool
    waits_for_global_rank: Optional[int]


class _OfAnOpenOperation(TypedDict, total=False):
    waited_s: float
    waits_for: List[int]


class Stragglers(_OfAnOpenOperation):
    """stragglers(). operation: None, or a dictionary of comm, op_seq, collective, count and dtype."""

    comm: int
    rank: int
    operation: Any
    absent: List[int]
    ranks: List[LateRank]
