"""`nezha aggregator`: its options, its numbers, and the process from its first line to its table."""

import json
import os
import signal
import socket
import subprocess
import sys
import urllib.request

import pytest

from nezha_tools.aggregator import node_stats, service, display
from nezha_tools.cli.errors import AggregatorError
from nezha_tools.aggregator.metrics import Collector, MetricsServer
from nezha_tools.aggregator.options import format_endpoint, parse_endpoint, read_topology

PATIENCE_S = 60
KEY = "0123456789abcdef0123456789abcdef\n"
STATS = {
    "port": 7700, "connections": {"accepted": 9, "refused": 2, "expired": 1}, "refused_jobs": 3,
    "jobs": [{"job": 255, "session": 1, "worker": 0, "ranks": 4, "ranks_up": 3, "groups": 2,
              "buffer_bytes": 1 << 25, "operations": 10, "refused_groups": 1, "bytes_received": 400,
              "bytes_sent": 300}],
    "ended": {"jobs": 5, "operations": 90, "refused_groups": 4, "refused_connections": 6,
              "bytes_received": 1600, "bytes_sent": 700},
}


@pytest.mark.parametrize("text, endpoint", [
    ("10.1.0.254:7700", ("10.1.0.254", 7700)), (":9464", ("0.0.0.0", 9464)), ("[::1]:1", ("::1", 1)),
    ("127.0.0.1", ("127.0.0.1", 7700)), ("[::]", ("::", 7700)), ("::1", ("::1", 7700)),
    ("fe80::1%eth0", ("fe80::1%eth0", 7700))])
def test_endpoints_are_read(text, endpoint):
    assert parse_endpoint(text, 7700) == endpoint
    assert parse_endpoint(format_endpoint(*endpoint)) == endpoint


@pytest.mark.parametrize("text", ["", "localhost:1", "10.1.0.254:x", "10.1.0.254:65536", "10.1.0:1",
                                  "1:2:3", "[::1", "10.0.0.1:-1", "10.0.0.1:\u0663"])
def test_other_endpoints_are_refused_by_name(text):
    with pytest.raises(AggregatorError, match="10.1.0.254:7700"):
        parse_endpoint(text)


def test_a_port_is_needed_where_there_is_no_default():
    with pytest.raises(AggregatorError, match="no port"):
        parse_endpoint("127.0.0.1")


def test_sums_go_over_the_living_and_the_dead():
    assert node_stats.total(STATS, "operations") == 100
    assert node_stats.refusals(STATS) == {"ticket": 2, "replay": 0, "silence": 1, "jobs": 3,
                                       "connections": 6, "groups": 5, "budget": 0}
    assert set(node_stats.refusals({}).values()) == {0}
    replayed = {"connections": {"refused": 5, "replayed": 3}, "ended": {"over_budget": 2}}
    assert node_stats.refusals(replayed)["ticket"] == 2 and node_stats.refusals(replayed)["replay"] == 3
    assert node_stats.refusals(replayed)["budget"] == 2
    assert node_stats.job_name({"job": 255, "session": 1}) == "00000000000000ff/1"


def test_refusals_are_told_at_once_and_then_seldom():
    log = node_stats.RefusalLog(pause=10)

    def told(refused, now):
        return log.lines({"connections": {"refused": refused}}, now)

    assert told(0, 0) == []
    assert len(told(1, 1)) == 1
    assert told(5, 2) == [] and told(900, 10.9) == []
    assert told(1000, 11) == [f"refused 999 {node_stats.REASONS['ticket']}; 1000 since the start"]
    assert told(1000, 60) == []


def test_metrics_over_http_and_read_again():
    pytest.importorskip("prometheus_client")
    server = MetricsServer(("127.0.0.1", 0), Collector(lambda: STATS, {"address": "a:1", "version": "0"}))
    try:
        text = urllib.request.urlopen(f"http://127.0.0.1:{server.port}/metrics", timeout=PATIENCE_S)
        body = text.read().decode()
    finally:
        server.close()
    assert 'nezha_aggregator_job_operations_total{job="00000000000000ff/1"} 10.0' in body
    assert "nezha_aggregator_operations_total 100.0" in body
    assert 'nezha_aggregator_refused_total{reason="groups"} 5.0' in body
    assert 'nezha_aggregator_connections_total{outcome="accepted"} 9.0' in body
    assert "process_cpu_seconds_total" in body
    single, by_job = display.read_metrics(body)
    assert single["jobs"] == "1" and single["address"] == "a:1"
    assert single["bytes_received"] == "2.00 kB" and single["refused ticket"] == "2"
    assert by_job["00000000000000ff/1"]["job_ranks_connected"] == 3


def test_a_metrics_server_is_bounded_by_its_clients():
    pytest.importorskip("prometheus_client")
    server = MetricsServer(("127.0.0.1", 0), Collector(lambda: STATS, {}))
    callers = []
    try:
        for _ in range(20):
            callers.append(socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE_S))
        # All but the few that are served are closed.
        closed = sum(1 for caller in callers[8:] if _is_hung_up(caller))
        assert closed == 12
    finally:
        for caller in callers:
            caller.close()
        server.close()


def _is_hung_up(caller):
    try:
        return caller.recv(1) == b""
    except ConnectionError:
        return True


def test_metrics_of_something_else():
    pytest.importorskip("prometheus_client")
    with pytest.raises(AggregatorError, match="not those of"):
        display.read_metrics("# TYPE x counter\nx_total 1\n")
    with pytest.raises(AggregatorError):
        display.read_metrics("<html>no</html>\n")
    with pytest.raises(AggregatorError, match="--metrics"):
        display.fetch("http://127.0.0.1:1/metrics")


def test_systemd_is_told(tmp_path, monkeypatch):
    monkeypatch.delenv("NOTIFY_SOCKET", raising=False)
    service.notify_systemd("READY=1")  # nobody listens: nothing happens
    for name in (str(tmp_path / "notify"), f"@nezha-test-{os.getpid()}"):
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listener:
            listener.bind("\0" + name[1:] if name.startswith("@") else name)
            listener.settimeout(PATIENCE_S)
            monkeypatch.setenv("NOTIFY_SOCKET", name)
            service.notify_systemd("READY=1")
            assert listener.recv(100) == b"READY=1"
    monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "nobody"))
    service.notify_systemd("READY=1")
    assert service.watchdog_seconds() is None
    monkeypatch.setenv("WATCHDOG_USEC", "10000000")
    assert service.watchdog_seconds() == 5
    monkeypatch.setenv("WATCHDOG_PID", "1")
    assert service.watchdog_seconds() is None


# ---- the process

@pytest.fixture
def key(tmp_path):
    """The path of a sound key."""
    path = tmp_path / "key"
    path.write_text(KEY)
    path.chmod(0o600)
    return str(path)


def start(*arguments, **options):
    code = "import sys; sys.argv[0] = 'nezha'; from nezha_tools.main import main; main()"
    return subprocess.Popen([sys.executable, "-c", code, "aggregator", *arguments], text=True,
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE, **options)


def refused(*arguments, code=1):
    process = start(*arguments)
    out, err = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == code and out == "" and "Traceback" not in err, err
    return err


def dial(port, count):
    """Opens `count` connections that send no valid ticket; the node closes each."""
    for _ in range(count):
        with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S) as caller:
            caller.sendall(b"no ticket at all".ljust(72))
            assert caller.recv(1) == b""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_node_from_its_first_line_to_its_table(number, key):
    node = start("--listen", "127.0.0.1:0", "--threads", "2", "--key-file", key)
    try:
        line = node.stdout.readline()
        assert line.startswith("nezha aggregator: listening on 127.0.0.1:"), line
        dial(int(line.rpartition(":")[2]), 3)
        assert "refused" in node.stderr.readline()
        node.send_signal(number)
        out, _ = node.communicate(timeout=PATIENCE_S)
    finally:
        node.kill()
    assert node.returncode == 0
    assert "stopped" in out and "3 (ticket)" in out and "processor time" in out


def test_a_node_for_programs(tmp_path, key):
    pytest.importorskip("prometheus_client")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listener:
        listener.bind(str(tmp_path / "notify"))
        listener.settimeout(PATIENCE_S)
        node = start("--listen", "127.0.0.1:0", "--key-file", key, "--metrics", "127.0.0.1:0",
                     "--json", env={**os.environ, "NOTIFY_SOCKET": str(tmp_path / "notify"),
                                    "WATCHDOG_USEC": "100000"})
        try:
            assert listener.recv(100) == b"READY=1"
            ready = json.loads(node.stdout.readline())
            assert ready["pid"] == node.pid
            assert listener.recv(100) == b"WATCHDOG=1"
            dial(ready["port"], 2)
            text = display.fetch(f"http://{ready['metrics']}/metrics")
            assert display.read_metrics(text)[0]["refused ticket"] == "2"
            node.terminate()
            out, _ = node.communicate(timeout=PATIENCE_S)
        finally:
            node.kill()
    last = json.loads(out)
    assert node.returncode == 0 and last["stats"]["connections"]["refused"] == 2
    assert last["stats"]["ended"]["jobs"] == 0


def test_a_taken_port(key):
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        assert f"port {port}" in refused("--listen", f"127.0.0.1:{port}", "--key-file", key)
        pytest.importorskip("prometheus_client")
        assert "--metrics" in refused("--listen", "127.0.0.1:0", "--key-file", key, "--metrics",
                                     f"127.0.0.1:{port}")


@pytest.mark.parametrize("arguments, words, code", [
    (("--listen", "localhost:7700"), "numeric", 2),
    (("--listen", "198.51.100.1:0"), "no device of this host has that address", 1),
    (("--listen", "127.0.0.1:0", "--device", "no-such-nic"), "no-such-nic", 1),
    (("--memory", "much"), "--memory", 2),
    (("--memory", "1M"), "32M", 2),
    (("--key-file", "/no/such/key"), "/no/such/key", 1),
])
def test_what_a_node_refuses(arguments, words, code, key):
    given = () if "--key-file" in arguments else ("--key-file", key)
    assert words in refused(*given, *arguments, code=code)


def test_a_topology_says_where_its_nodes_listen(tmp_path):
    tree = tmp_path / "tree.json"
    tree.write_text(json.dumps({"nodes": [
        {"name": "root", "address": "127.0.0.1:0"},
        {"name": "leaf", "address": "127.0.0.2:0", "parent": "root", "serves": ["127.0.0.9/32"]}]}))
    assert read_topology(str(tree), "leaf") == (tree.read_text(), "127.0.0.2:0")
    for name in (None, "root2"):
        with pytest.raises(AggregatorError, match="root, leaf"):
            read_topology(str(tree), name)
    for wrong in ("", "[]", "{}", '{"nodes": [1]}', '{"nodes": [{"name": "root"}]}', "\xff"):
        tree.write_text(wrong)
        with pytest.raises(AggregatorError, match="--topology"):
            read_topology(str(tree), "root")
    with pytest.raises(AggregatorError, match="No such file"):
        read_topology(str(tmp_path / "nothing"), "root")


def test_trees_that_the_library_refuses(tmp_path, key):
    tree = tmp_path / "tree.json"
    tree.write_text('{"nodes": [{"name": "a", "address": "127.0.0.1:1", "parent": "a"}]}')
    assert "a" in refused("--topology", str(tree), "--name", "a", "--key-file", key)
    assert "--topology" in refused("--name", "a", code=2)


@pytest.mark.parametrize("text, mode, words", [
    ("secret\n", 0o600, "128 are needed"), ("\n", 0o600, "128 are needed"), (KEY, 0o644, "chmod 600"),
    (KEY, 0o640, "chmod 600")])
def test_keys_that_protect_nothing(key, text, mode, words):
    with open(key, "w", encoding="ascii") as file:
        file.write(text)
    os.chmod(key, mode)
    assert words in refused("--listen", "127.0.0.1:0", "--key-file", key)


def test_there_is_no_default_key():
    assert "no default key" in refused("--listen", "127.0.0.1:0")


def test_a_node_inside_a_program(key):
    from nezha import _native, errors

    node = _native.Aggregator("127.0.0.1", 0, None, key, 1, 0, 0, 0, 0, None, None)
    port = node.port
    assert json.loads(node.stats())["port"] == port
    node.close()
    node.close()  # twice is no error
    with pytest.raises(errors.InvalidArgument):
        node.stats()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S)


def test_the_key_of_a_job(tmp_path):
    key = tmp_path / "key"
    key.write_text("5a" * 32 + "\n")
    key.chmod(0o600)

    def printed(*arguments):
        process = start("job-key", "--key-file", str(key), *arguments)
        out, err = process.communicate(timeout=PATIENCE_S)
        assert process.returncode == 0, err
        return out.strip()

    assert printed("--job", "4711") == printed("--job", "4711") != printed("--job", "4712")
    assert printed() != printed()
    number, _, secret = printed("--job", "4711").partition(":")
    assert (len(number), len(secret)) == (16, 64)
    key.chmod(0o644)
    assert "chmod 600" in refused("job-key", "--key-file", str(key))
