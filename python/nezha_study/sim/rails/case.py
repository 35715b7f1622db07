"""What one simulation is about: the network, the policy, the traffic. Pure values, checked at once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Tuple

from nezha_tools.cli.validation import refused, whole
from nezha_tools.bench.static_rails import fewest_rails

POLICIES = ("modulo", "random", "round_robin", "static", "local_dynamic", "dynamic", "hybrid")
HOSTS_MAX, RAILS_MAX, PROCESSES_MAX, MESSAGES_MAX = 1024, 32, 64, 10_000
LOAD_MAX = 4.0
MEANS_MAX, MEAN_BYTES_MAX = 8, 1 << 30


@dataclass(frozen=True)
class Network:
    """One rail, as docs/rail_study.md explains each number.

    bus: bytes per microsecond of a port's I/O bus in one direction. duplex: the part of it that both
    directions together get while both move. startup_us: from memory to memory for an empty message,
    without switches. switch_us: a switch on the way. control_us: a port's processor handles one packet
    of the reservation protocol. backoff_us, backoff_most_us: the mean pause after a refused request,
    doubled from the first to the second. short_pass: a message without reservation goes in front of a
    reserved one at the port that receives both.
    """

    bus: float = 340.0
    duplex: float = 0.8
    startup_us: float = 2.0
    switch_us: float = 0.035
    control_us: float = 2.0
    backoff_us: float = 4.0
    backoff_most_us: float = 32.0
    short_pass: bool = True


@dataclass(frozen=True)
class Case:
    """One run. Raises PlanError for a value that makes no sense.

    load: what the hosts offer, 1 being all that their buses carry when no port ever does both
    directions at once: a host then sends rails x bus / 2 and receives as much. means: bytes; a message
    is exponential about one of them, each as often as the others. messages: how many a
    process offers, on average. short_bytes: messages below it are sent by `hybrid` without reservation.
    """

    policy: str
    striped: bool = False
    hosts: int = 32
    rails: int = 4
    means: Tuple[int, ...] = (32 << 10,)
    load: float = 0.5
    seed: int = 1
    processes: int = 4
    messages: int = 60
    short_bytes: int = 8 << 10
    network: Network = Network()

    def __post_init__(self) -> None:
        if self.policy not in POLICIES:
            raise refused("policy", self.policy, "one of " + ", ".join(POLICIES))
        whole("nodes", self.hosts, 2, HOSTS_MAX)
        whole("rails", self.rails, 1, RAILS_MAX)
        if not 0 < len(self.means) <= MEANS_MAX:
            raise refused("mean", list(self.means), f"1 to {MEANS_MAX} sizes")
        for mean in self.means:
            whole("mean", mean, 1, MEAN_BYTES_MAX)
        whole("seed", self.seed, 0, 2**63 - 1)
        whole("processes", self.processes, 1, PROCESSES_MAX)
        whole("messages", self.messages, 1, MESSAGES_MAX)
        whole("short", self.short_bytes, 0, MEAN_BYTES_MAX)
        if isinstance(self.load, bool) or not isinstance(self.load, (int, float)) or not (
                0 < self.load <= LOAD_MAX):
            raise refused("load", self.load, f"a number above 0, at most {LOAD_MAX:g}")
        if self.policy == "static" and self.rails < fewest_rails(self.hosts):
            raise refused("rails", self.rails, f"at least {fewest_rails(self.hosts)} for static "
                          f"directions among {self.hosts} hosts (nezha plan rails)")

    @property
    def mean_bytes(self) -> float:
        """Of all messages."""
        return sum(self.means) / len(self.means)

    @property
    def limit(self) -> float:
        """Bytes per microsecond that all hosts together can send, load 1."""
        return self.hosts * self.rails * self.network.bus / 2
