"""S3: unauthenticated connections to every listening port of a running job, thousands a second."""

from __future__ import annotations

import json
import socket
import struct
import subprocess
import sys
import time
from typing import Any, Dict, List

from nezha.lab import Lab

from campaigns import goodput
from campaigns.campaign import Campaign, Record
from campaigns.job import Job, child_env, job_in
from campaigns.lines import Broken
from campaigns.measure import Figure, percentile

_SECONDS = {"short": 3.0, "faults": 60.0, "soak": 600.0}
_RATE = 2200  # asked for; what was reached is a figure
_WANTED_RATE = 2000
_LISTEN = "0A"  # a state, as /proc/net/tcp writes it
_SETTLE_S = 3.0  # after a flood: strangers have two seconds


class Flood(Campaign):
    """A sample is one flood, from one node at all ports of the other."""

    id = "S3"
    title = "ports flooded"
    wanted = (1, 1, 1)

    def run(self, record: Record) -> None:
        seconds = _SECONDS[record.form]
        with Lab(goodput.NODES, [goodput.RATE] * goodput.RAILS) as lab, \
                job_in(lab, [goodput.CASE], record) as job:
            job.ops([0] * 8)
            for number, _rng in record.faults():
                victim = number % goodput.NODES
                self._one(record, lab, job, victim, seconds)

    def _one(self, record: Record, lab: Lab, job: Job, victim: int, seconds: float) -> None:
        ports = ports_of(lab, victim)
        if not ports:
            raise Broken("the running job listens nowhere: there is nothing to flood")
        earlier = goodput.of(goodput.stream(job, min(seconds, 10.0)))
        before = job.state()
        flooder = lab.popen(1 - victim, [sys.executable, "-m", "campaigns.flooder", str(seconds),
                                         str(_RATE), *ports],
                            env=child_env({}), stdout=subprocess.PIPE, text=True)
        begin = time.monotonic()
        during = goodput.of(goodput.stream(job, seconds))
        most = max(s["rss_kib"] for s in job.state().values())
        out, _ = flooder.communicate(timeout=seconds + 60)
        told: Dict[str, Any] = json.loads(out)
        if told["total"] == 0:
            raise Broken(f"the flood did not happen: {told}")
        time.sleep(_SETTLE_S)
        # Before and after it: what else this machine does changes, too.
        quiet = (earlier + goodput.of(goodput.stream(job, min(seconds, 10.0)))) / 2
        after = job.state()
        for rank, state in after.items():
            lost = state["stats"]["endpoints_lost"] - before[rank]["stats"]["endpoints_lost"]
            if lost:
                raise Broken(f"rank {rank} lost {lost} connections to strangers")
            more = len(state["descriptors"]) - len(before[rank]["descriptors"])
            if more > 0:
                raise Broken(f"rank {rank} keeps {more} descriptors of strangers")
        grown = max(most - before[victim]["rss_kib"],
                    *(after[r]["rss_kib"] - before[r]["rss_kib"] for r in after))
        record.add(per_second=told["per_second"], made=told["total"], kinds=told["made"],
                   refused_by_kernel=told["failed"], ports=len(ports), grown_mib=grown / 1024,
                   drop=100 * (1 - during / quiet), seconds=time.monotonic() - begin)

    def figures(self, record: Record) -> List[Figure]:
        return [Figure("connections a second", percentile(record.of("per_second"), 0), _WANTED_RATE,
                       "", at_least=True),
                Figure("goodput lost", percentile(record.of("drop"), 1), 5, "%"),
                Figure("memory grown", percentile(record.of("grown_mib"), 1), 16, "MiB")]


def ports_of(lab: Lab, node: int) -> List[str]:
    """ADDRESS:PORT of every listening socket of a node that other hosts can reach."""
    table = lab.exec(node, ["cat", "/proc/net/tcp"], capture_output=True, text=True).stdout
    ports = []
    for line in table.splitlines()[1:]:
        local, state = line.split()[1], line.split()[3]
        address, port = local.split(":")
        dotted = socket.inet_ntoa(struct.pack("<I", int(address, 16)))
        if state == _LISTEN and not dotted.startswith("127."):
            ports.append(f"{dotted}:{int(port, 16)}")
    return ports
