"""A rank that stands still longer than an outage may last is not lost, however full the queues of its
listeners are: of the probes of its many peers, or of strangers' connections."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import List

import pytest
import wire_meter  # noqa: F401  (also finds nezha in the source tree)

from nezha.lab import Lab

sys.path.insert(0, os.path.join(os.path.dirname(__file__), ".."))
from campaigns.cases import mixed
from campaigns.job import Job

_OUTAGE_S = 2.0
_STOPPED_S = 7.0
_QUEUE = 8  # places, in these networks
# Opens as many connections as fit to each port, says nothing, and stays.
_STRANGERS = """
import socket, sys, time
held = []
for _ in range(40):
    for place in sys.argv[1:]:
        address, port = place.rsplit(":", 1)
        stranger = socket.socket(socket.AF_INET, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
        stranger.connect_ex((address, int(port)))
        held.append(stranger)
print("there", flush=True)
time.sleep(60)
"""


def listening(pid: int) -> List[str]:
    """address:port of every IPv4 listener of that process on a rail."""
    sockets = {link.readlink().name for link in Path(f"/proc/{pid}/fd").iterdir() if link.is_symlink()}
    found = []
    for line in Path(f"/proc/{pid}/net/tcp").read_text(encoding="ascii").splitlines()[1:]:
        _, local, _, state, *rest = line.split()
        if state == "0A" and f"socket:[{rest[5]}]" in sockets:
            address, port = local.split(":")
            numeric = socket.inet_ntoa(bytes.fromhex(address)[::-1])
            found.append(f"{numeric}:{int(port, 16)}")
    return found


def overflows(pid: int) -> int:
    """Connection requests that the kernel of that process's network has dropped at full queues."""
    names, values = [line.split() for line in
                     Path(f"/proc/{pid}/net/netstat").read_text(encoding="ascii").splitlines()
                     if line.startswith("TcpExt:")]
    return int(values[names.index("ListenOverflows")])


@pytest.mark.usefixtures("namespaces")
@pytest.mark.parametrize("strangers", [False, True], ids=["peers", "strangers"])
def test_a_stopped_rank_is_not_lost_where_its_queues_are_full(strangers: bool) -> None:
    with Lab(2, ["1gbit", "1gbit"], ranks_per_node=1 if strangers else 6) as lab:
        for node in range(len(lab)):
            assert lab.popen(node, ["sysctl", "-qw", f"net.core.somaxconn={_QUEUE}"]).wait() == 0
        job = Job(lab, mixed(1 << 12), outage_s=_OUTAGE_S, timeout_s=120, connect_timeout_s=120)
        try:
            job.calibrate(1)
            victim = len(job.ranks) - 1
            pid = job.ranks[victim].process.pid
            crowd = None
            job.signal(victim, signal.SIGSTOP)
            if strangers:
                crowd = lab.popen(0, [sys.executable, "-c", _STRANGERS, *listening(pid)],
                                  stdout=subprocess.PIPE, text=True)
                assert crowd.stdout is not None and crowd.stdout.readline() == "there\n"
            cases = [0] * 4
            job.start_ops(cases)
            time.sleep(_STOPPED_S)
            full = overflows(pid)
            job.signal(victim, signal.SIGCONT)
            job.finish_ops(cases, within=120)  # raises for an error, and for wrong bits
            if crowd is not None:
                crowd.kill()
                crowd.wait()
                assert full > 0, "the fault did not happen: no queue was full"
            job.close()
        finally:
            job.kill()
