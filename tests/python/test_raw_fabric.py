"""bench/fabric/raw_fabric: it measures over what this host has, refuses what it must, and never hangs."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
from pathlib import Path
from typing import List

import pytest

ROOT = Path(__file__).resolve().parents[2]
SECONDS = 120
SMALL = ["--size", "20000", "--window", "3", "--iterations", "20", "--repeats", "2",
         "--round-trips", "10"]


@pytest.fixture(scope="module")
def program() -> str:
    """The newest raw_fabric that was built here, or $RAW_FABRIC."""
    built = sorted(ROOT.glob("build/*/bench/fabric/raw_fabric"), key=os.path.getmtime)
    found = os.environ.get("RAW_FABRIC") or (str(built[-1]) if built else "")
    if not found:
        pytest.skip("raw_fabric is not built: install libfabric-dev, then cmake --preset release && "
                    "cmake --build build/release --target raw_fabric")
    return found


def run(program: str, *words: str) -> "subprocess.CompletedProcess[str]":
    """Runs it to its end, which must come."""
    return subprocess.run([program, *words], text=True, capture_output=True, timeout=SECONDS)


def check_result(text: str) -> None:
    """A result has a median between its least and its largest, and compared four windows."""
    result = json.loads(text)
    assert result["verified"] == 12
    for name in ("write_gbit_per_s", "write_latency_us", "send_latency_us"):
        spread = result[name]
        assert 0 < spread["least"] <= spread["median"] <= spread["largest"]


@pytest.mark.parametrize("words", [["tcp;ofi_rxm", "--address", "127.0.0.1"],
                                   ["net", "--address", "127.0.0.1"], ["shm"]], ids=lambda w: w[0])
def test_measures(program: str, words: List[str]) -> None:
    done = run(program, "--provider", *words, "--json", *SMALL)
    if "has no provider" in done.stderr:
        pytest.skip(done.stderr.splitlines()[0])
    assert done.returncode == 0, done.stderr
    check_result(done.stdout)


def test_two_commands(program: str) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        meeting = f"127.0.0.1:{probe.getsockname()[1]}"
    words = [program, "--address", "127.0.0.1", "--json", *SMALL]
    with subprocess.Popen([*words, "--listen", meeting], text=True, stdout=subprocess.PIPE) as server:
        done = run(*words, "--connect", meeting)
        assert done.returncode == 0, done.stderr
        check_result(done.stdout)
        assert server.wait(SECONDS) == 0


def test_different_options_are_an_error_on_both_sides(program: str) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        meeting = f"127.0.0.1:{probe.getsockname()[1]}"
    words = [program, "--address", "127.0.0.1", "--json"]
    with subprocess.Popen([*words, "--listen", meeting, "--window", "2"]) as server:
        done = run(*words, "--connect", meeting, "--window", "3")
        assert done.returncode == 1
        assert server.wait(SECONDS) == 1


def test_a_stranger_on_the_side_channel_is_refused(program: str) -> None:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(1)
        words = [program, "--address", "127.0.0.1", "--connect", f"127.0.0.1:{listener.getsockname()[1]}"]
        with subprocess.Popen(words, text=True, stderr=subprocess.PIPE) as client:
            stranger, _ = listener.accept()
            stranger.sendall(b"x" * 4096)
            assert client.wait(SECONDS) == 1
            assert "is not a raw_fabric" in client.stderr.read()
            stranger.close()


def test_a_peer_that_stops_ends_it(program: str) -> None:
    words = [program, "--provider", "tcp;ofi_rxm", "--address", "127.0.0.1", "--iterations", "100000000",
             "--timeout", "5"]
    with subprocess.Popen(words, text=True, stderr=subprocess.PIPE) as sender:
        children = Path(f"/proc/{sender.pid}/task/{sender.pid}/children")
        while not (child := children.read_text().split()):
            assert sender.poll() is None, sender.stderr.read()
        os.kill(int(child[0]), signal.SIGSTOP)  # killed with its parent: raw_fabric asks the kernel to
        assert sender.wait(SECONDS) == 3
        with contextlib.suppress(ProcessLookupError):  # stopped before it could ask
            os.kill(int(child[0]), signal.SIGKILL)
        assert "nothing completed for 5 s" in sender.stderr.read()


@pytest.mark.parametrize("words, said", [
    (["--size", "3Q"], "a whole number"), (["--window", "0"], "from 1 to 1024"),
    (["--window", "1024", "--size", "1G"], "above 4 GiB"), (["--connect", "7000"], "HOST:PORT"),
    (["--provider", "shm", "--address", "127.0.0.1"], "takes no --address"), (["stray"], "stray"),
    (["--timeout", "nan"], "seconds from")])
def test_refuses(program: str, words: List[str], said: str) -> None:
    done = run(program, *words)
    assert done.returncode == 2
    assert said in done.stderr


def test_names_what_libfabric_lacks(program: str) -> None:
    done = run(program, "--provider", "nosuch")
    assert done.returncode == 1
    assert "has no provider 'nosuch'" in done.stderr and "fi_info" in done.stderr
