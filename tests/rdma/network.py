"""Inside the guest: three rails between two "nodes" that share one network namespace.

Soft-RoCE of the guest's kernel sends and receives in the initial namespace only, so nodes cannot be
namespaces. Each rail is a switch with a device of either node; policy routing sends what goes from one
node's address to the other's over the wire, where the kernel would have looped it back. What the wire
carried is counted, so a test can show that it did.

    rail a: a0 10.1.0.1, rxe_a0  ---  switch_a  ---  a1 10.1.0.2, rxe_a1
    rail b: b0 10.2.0.1, rxe_b0  ---  switch_b  ---  b1 10.2.0.2, rxe_b1
    rail c: c0 10.3.0.1          ---  switch_c  ---  c1 10.3.0.2             Ethernet only
"""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Dict, List, NamedTuple

MODULES = ("rdma_rxe", "ib_uverbs", "rdma_ucm", "veth", "bridge", "sch_netem")
WIRE_RULES, LOCAL_RULE = 10, 100  # preferences: what crosses a wire is decided before what is local
MTU = 4200                        # holds the largest InfiniBand MTU, 4096, with its headers
# Counters of rxe that only move when packets were lost and sent again.
REPAIRS = ("out_of_seq_request", "rcvd_seq_err", "duplicate_request", "completer_retry_err")


class Failure(Exception):
    """A step did not do what it must; the text says which and what it said."""


def run(*words: str, text: str = "") -> str:
    """Output of a command. Raises Failure with the command and its complaint."""
    done = subprocess.run(words, input=text, text=True, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE)
    if done.returncode != 0:
        raise Failure(f"`{' '.join(words)}` failed: {done.stderr.strip()[-300:]}")
    return done.stdout


class Rail(NamedTuple):
    """A network with both nodes on it; `number` from 1 makes its addresses."""

    name: str
    number: int
    rdma: bool

    def device(self, node: int) -> str:
        """Ethernet device of a node's end."""
        return f"{self.name}{node}"

    def verbs(self, node: int) -> str:
        """RDMA device of a node's end."""
        return f"rxe_{self.device(node)}"

    def port(self, node: int) -> str:
        """The switch's port for a node."""
        return f"port_{self.device(node)}"

    def address(self, node: int) -> str:
        """IPv4 address of a node's end."""
        return f"10.{self.number}.0.{node + 1}"

    def table(self, node: int) -> int:
        """Routing table of what this end sends to the other."""
        return 100 + 2 * self.number + node

    def set_up(self) -> None:
        """Makes the switch, what is on it, and the RDMA devices."""
        switch = f"switch_{self.name}"
        lines = f"link add {switch} mtu {MTU} type bridge\nlink set {switch} up\n"
        for n in (0, 1):
            lines += (f"link add {self.device(n)} mtu {MTU} type veth "
                      f"peer name {self.port(n)} mtu {MTU}\n"
                      f"link set {self.port(n)} master {switch} up\n"
                      f"addr add {self.address(n)}/24 dev {self.device(n)}\n"
                      f"link set {self.device(n)} up\n"
                      f"route add {self.address(1 - n)} dev {self.device(n)} src {self.address(n)} "
                      f"table {self.table(n)}\n"
                      f"rule add pref 1 iif {self.device(n)} lookup local\n"
                      f"rule add pref {WIRE_RULES} from {self.address(n)} to {self.address(1 - n)} "
                      f"lookup {self.table(n)}\n")
        run("ip", "-batch", "-", text=lines)
        for n in (0, 1):
            # Packets come from an address that is this host's own, and only the end asked may answer ARP.
            for name, value in (("accept_local", 1), ("rp_filter", 0), ("arp_ignore", 1),
                                ("arp_announce", 2)):
                Path(f"/proc/sys/net/ipv4/conf/{self.device(n)}/{name}").write_text(str(value))
            if self.rdma:
                run("rdma", "link", "add", self.verbs(n), "type", "rxe", "netdev", self.device(n))

    def impair(self, *netem: str) -> None:
        """netem on both ends, such as ("delay", "5ms"); nothing: a clean rail."""
        for n in (0, 1):
            device = self.device(n)
            if netem:
                run("tc", "qdisc", "replace", "dev", device, "root", "netem", *netem, "limit", "10000")
            elif self.qdisc(n)["kind"] == "netem":
                run("tc", "qdisc", "del", "dev", device, "root")

    def cut(self) -> None:
        """Pulls node 0's cable at the switch: its device loses the carrier, node 1's does not.

        Not by `ip link set a0 down`: that takes the routes, too, upon which rxe fails what it cannot
        send, messages of the connection manager among it, and the device makes no connection ever after.
        """
        run("ip", "link", "set", self.port(0), "down")

    def restore(self) -> None:
        """Undoes cut() and impair()."""
        run("ip", "link", "set", self.port(0), "up")
        self.impair()

    def qdisc(self, node: int) -> Dict[str, object]:
        """`tc -s` of an end's root queue: kind, packets, drops."""
        listed = json.loads(run("tc", "-s", "-j", "qdisc", "show", "dev", self.device(node), "root"))
        return listed[0] if listed else {"kind": "none", "packets": 0, "drops": 0}

    def carried(self) -> int:
        """Packets that the nodes' devices have sent."""
        return sum(int(Path(f"/sys/class/net/{self.device(n)}/statistics/tx_packets").read_text())
                   for n in (0, 1))

    def dropped(self) -> int:
        """Packets that netem has thrown away since impair()."""
        return sum(int(str(self.qdisc(n)["drops"])) for n in (0, 1))

    def sent_bytes(self, node: int) -> int:
        """What a node's device has sent, headers included."""
        return int(Path(f"/sys/class/net/{self.device(node)}/statistics/tx_bytes").read_text())

    def rxe(self, node: int, *names: str) -> int:
        """Sum of hardware counters of a node's RDMA device."""
        folder = Path(f"/sys/class/infiniband/{self.verbs(node)}/ports/1/hw_counters")
        return sum(int((folder / name).read_text()) for name in names)

    def repairs(self) -> int:
        """How often either RDMA device has found that something was lost."""
        return sum(self.rxe(n, *REPAIRS) for n in (0, 1))


RAILS: List[Rail] = [Rail("a", 1, True), Rail("b", 2, True), Rail("c", 3, False)]


def rail(name: str) -> Rail:
    """The rail of that name."""
    return next(entry for entry in RAILS if entry.name == name)


def set_up() -> None:
    """All rails. Raises Failure, naming the step."""
    run("modprobe", "-a", *MODULES)
    Path("/proc/sys/net/ipv4/conf/all/rp_filter").write_text("0")
    # libfabric asks for the RDMA device behind every address; link-local ones only cost time here.
    Path("/proc/sys/net/ipv6/conf/default/disable_ipv6").write_text("1")
    for entry in RAILS:
        entry.set_up()
    run("ip", "-batch", "-", text=f"rule add pref {LOCAL_RULE} lookup local\nrule del pref 0\n")
