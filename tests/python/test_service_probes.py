"""What looks for services on a network, nmap or the first words of well-known protocols, at every port of
a starting job, a running one and an aggregation node: the job forms, and every result is exact."""

import contextlib
import json
import os
import shutil
import socket
import struct
import subprocess
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

import nezha
from nezha import _native

PATIENCE_S = 60
_RAIL = "127.61.0.1"
_NODE = "127.61.0.2"
_STORE = "127.61.0.3"
_RANKS = 2
_COUNT = 20_000
_NMAP_S = 240


def _records(*parts):
    return b"".join(struct.pack(">H", len(part)) + part for part in parts)


def _client_hello():
    """A TLS 1.2 ClientHello with a server name (RFC 5246, 7.4.1.2; RFC 6066, 3)."""
    name = b"\x00" + _records(b"rail")
    extension = struct.pack(">H", 0) + _records(_records(name))
    hello = b"\x03\x03" + bytes(range(32)) + b"\x00" + _records(b"\xc0\x2f\x00\x9c") + b"\x01\x00"
    hello += _records(extension)
    handshake = b"\x01" + struct.pack(">I", len(hello))[1:] + hello
    return b"\x16\x03\x01" + _records(handshake)


def _smb_negotiate():
    """SMB1 NEGOTIATE in a NetBIOS session message ([MS-CIFS] 2.2.4.52)."""
    header = b"\xffSMB\x72" + bytes(4) + b"\x18" + struct.pack("<H", 0xC843) + bytes(18)
    dialects = b"\x02NT LM 0.12\x00\x02SMB 2.002\x00"
    message = header + b"\x00" + struct.pack("<H", len(dialects)) + dialects
    return struct.pack(">I", len(message)) + message


# The first words of clients and of scanners.
PROBES = {
    "nothing": b"",
    "line ends": b"\r\n\r\n",
    "http get": b"GET / HTTP/1.1\r\nHost: rail\r\nUser-Agent: probe\r\n\r\n",
    "http options": b"OPTIONS * HTTP/1.0\r\n\r\n",
    "rtsp": b"OPTIONS / RTSP/1.0\r\nCSeq: 1\r\n\r\n",
    "http2": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes(9),
    "tls": _client_hello(),
    "ssh": b"SSH-2.0-OpenSSH_9.6\r\n",
    "smb": _smb_negotiate(),
    # TPKT and X.224 connection request with RDP_NEG_REQ ([MS-RDPBCGR] 2.2.1.1).
    "rdp": b"\x03\x00\x00\x13\x0e\xe0\x00\x00\x00\x00\x00\x01\x00\x08\x00\x03\x00\x00\x00",
    "dns": struct.pack(">H", 30) + b"\x00\x06\x01\x00\x00\x01" + bytes(6) +
           b"\x07version\x04bind\x00\x00\x10\x00\x03",
    "redis": b"*1\r\n$4\r\nPING\r\n",
    "smtp": b"EHLO rail\r\n",
    "mysql": b"\x20\x00\x00\x01\x85\xa6\x03\x00" + bytes(28),
    "postgresql": struct.pack(">II", 8, 80877103),
    "rpc": struct.pack(">I", 0x80000028) + struct.pack(">10I", 1, 0, 2, 100000, 2, 0, 0, 0, 0, 0),
    "sip": b"OPTIONS sip:rail SIP/2.0\r\nMax-Forwards: 0\r\n\r\n",
    "zeros": bytes(4096),
    "other bytes": bytes(range(256)) * 64,
}


def listening_ports():
    """(address, port) of every TCP socket on which this process listens."""
    mine = set()
    for entry in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):
            mine.add(os.readlink(f"/proc/self/fd/{entry}"))
    found = set()
    with open("/proc/self/net/tcp", encoding="ascii") as table:
        for line in list(table)[1:]:
            fields = line.split()
            if fields[3] == "0A" and f"socket:[{fields[9]}]" in mine:
                address, port = fields[1].split(":")
                found.add((socket.inet_ntoa(struct.pack("=I", int(address, 16))), int(port, 16)))
    return found


def probe(address, port):
    """Every probe at one port; half of those who say them stay. What was answered, by probe."""
    answers, staying = {}, []
    for number, (name, words) in enumerate(PROBES.items()):
        stranger = socket.create_connection((address, port), timeout=PATIENCE_S)
        stranger.settimeout(0.1)
        answer = b""
        with contextlib.suppress(OSError):  # closed upon it, or silent: as it should be
            stranger.sendall(words)
            while part := stranger.recv(4096):
                answer += part
        answers[name] = answer
        staying.append(stranger) if number % 2 else stranger.close()
    for stranger in staying:
        stranger.close()
    return answers


class Job:
    """Two ranks as threads, and an aggregation node; each rank checks every element of every result until
    it is told to stop."""

    def __init__(self, tmp_path):
        key = tmp_path / "key"
        key.write_text("0123456789abcdef0123456789abcdef")
        key.chmod(0o600)
        self.node = _native.Aggregator(_NODE, 0, None, str(key), 1, 0, 0, 0, 0, None, None)
        wanted = {"key_file": str(key), "job": "probed"}
        job_key = json.loads(_native.query("job_key", json.dumps(wanted)))
        self._config = {"rails": f"{_RAIL}/32", "secret": "0123456789abcdef0123456789abcdef",
                        "aggregator": f"{_NODE}:{self.node.port}", "aggregator_share": 0.5,
                        "aggregator_job_key": job_key["job_key"], "log_level": "error"}
        with socket.socket() as free:
            free.bind((_STORE, 0))
            self._store = f"tcp://{_STORE}:{free.getsockname()[1]}"
        self._over = threading.Event()
        self._threads = {}
        self.rounds = [0] * _RANKS
        self.errors = []
        self.authentication = None

    def start(self, rank):
        self._threads[rank] = threading.Thread(target=self._run, args=(rank,), daemon=True)
        self._threads[rank].start()

    def _run(self, rank):
        try:
            with nezha.init(rank, _RANKS, self._store, timeout=2 * _NMAP_S, config=self._config) as comm:
                self.authentication = comm.stats()["authentication"]
                expected = [float(sum(i * (r + 1) for r in range(_RANKS))) for i in range(_COUNT)]
                going_on = True
                while going_on:
                    data = memoryview(bytearray(8 * _COUNT)).cast("d")
                    data[:] = memoryview(struct.pack(f"{_COUNT}d", *(
                        float(i * (rank + 1)) for i in range(_COUNT)))).cast("B").cast("d")
                    comm.all_reduce(data)
                    assert data.tolist() == expected
                    self.rounds[rank] += 1
                    going_on = comm.all_reduce(bytearray([self._over.is_set()]))[0] == 0
        except BaseException as error:  # told by the test
            self.errors.append(f"rank {rank}: {error!r}")

    def wait(self, condition):
        deadline = time.monotonic() + PATIENCE_S
        while not condition():
            assert not self.errors and time.monotonic() < deadline, (self.errors, self.rounds)
            time.sleep(0.01)

    def finish(self):
        """Goes on for a while, then ends; whether anything was wrong is in `errors`."""
        before = list(self.rounds)
        self.wait(lambda: all(now >= then + 3 for now, then in zip(self.rounds, before)))
        self._over.set()
        for thread in self._threads.values():
            thread.join(PATIENCE_S)
            assert not thread.is_alive()
        assert not self.errors and self.authentication == "secret"


@pytest.fixture
def job(tmp_path):
    made = Job(tmp_path)
    yield made
    made.node.close()


def scan_by_probes(ports):
    with ThreadPoolExecutor(len(ports)) as callers:
        for answers in callers.map(lambda port: probe(*port), sorted(ports)):
            for name, answer in answers.items():
                # A challenge, a refusal or a store's greeting: nothing of the job.
                assert len(answer) <= 128, (name, answer)


def scan_by_nmap(ports, effort="--version-light"):
    addresses = sorted({address for address, _ in ports})
    numbers = ",".join(str(port) for port in sorted({port for _, port in ports}))
    scan = subprocess.run(
        ["nmap", "-n", "-Pn", "-sT", "-sV", effort, "-T5", "-p", numbers, "-oG", "-",
         *addresses], capture_output=True, text=True, timeout=_NMAP_S)
    assert scan.returncode == 0, scan.stderr
    assert scan.stdout.count("/open/tcp/") == len(ports), scan.stdout


def scan_by_nmap_in_short(ports):
    """Connects to every port, hears what it says by itself, and says what its number suggests."""
    scan_by_nmap(ports, "--version-intensity=0")


def _has_nmap():
    return pytest.mark.skipif(shutil.which("nmap") is None,
                              reason="nmap is not installed: apt-get install nmap")


@pytest.mark.parametrize("scan", [
    pytest.param(scan_by_probes, id="probes"),
    pytest.param(scan_by_nmap_in_short, id="nmap_in_short", marks=_has_nmap()),
    pytest.param(scan_by_nmap, id="nmap", marks=[_has_nmap(), pytest.mark.long])])
class TestProbes:
    """Each way to look for services, while a job starts and while it runs."""

    def test_of_a_starting_job(self, job, scan):
        job.start(0)
        # Two ports of the rail (for this host and for others), the store's, and the node's.
        job.wait(lambda: len(listening_ports()) >= 4)
        ports = listening_ports()
        assert {address for address, _ in ports} == {_RAIL, _NODE, _STORE}
        scan(ports)
        job.start(1)
        job.finish()

    def test_of_a_running_job(self, job, scan):
        for rank in range(_RANKS):
            job.start(rank)
        job.wait(lambda: min(job.rounds) > 0)
        job.wait(lambda: json.loads(job.node.stats())["jobs"])
        ports = listening_ports()
        assert {_RAIL, _NODE} <= {address for address, _ in ports}
        before = min(job.rounds)
        scan(ports)
        assert min(job.rounds) > before
        job.finish()
