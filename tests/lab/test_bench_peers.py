"""`nezha bench --compare` with every library that is installed, small and for real: table, JSON, picture.

One that is missing is skipped with the sentence of the bench, which says how to install it.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import List

import pytest
from conftest import child_env

from nezha_tools.bench.libraries import find_peers, settings

pytestmark = pytest.mark.usefixtures("namespaces")
_SIZES = [16, 64 << 10]  # an element for each rank at least


def _compare(peer: str, *arguments: str,
             collective: str = "all_reduce") -> "subprocess.CompletedProcess[str]":
    missing = find_peers([peer], None)[1]
    if missing:
        pytest.skip(f"{peer}: {missing[peer]}")
    code = "import sys; sys.argv[0] = 'nezha'; from nezha_tools.main import main; main()"
    compared = peer if "-" in peer else f"{peer}-default"
    common = [collective, "--nodes", "2", "--rates", "200mbit,100mbit", "-b", "16", "-e", "64K", "-f",
              str(_SIZES[1] // _SIZES[0]), "--iters", "6", "-w", "2", "--no-gain", "--compare", compared]
    return subprocess.run([sys.executable, "-c", code, "bench", *common, *arguments], env=child_env(),
                          text=True, capture_output=True, timeout=280)


def _titles(shown: str) -> List[str]:
    return [line for line in shown.splitlines() if "same lab" in line or "left out" in line]


@pytest.mark.parametrize("peer", settings.all_names())
def test_a_peer_is_measured_beside_nezha(peer: str, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    file, picture = tmp_path / "all.json", tmp_path / "all.png"
    done = _compare(peer, "--json", str(file), "--plot", str(picture))
    assert done.returncode == 0, done.stderr
    words = settings.words(peer)
    assert _titles(done.stdout) == [f"# {peer} ({words}), same lab, same rule"], done.stdout
    document = json.loads(file.read_text())
    rows = document["peers"][peer]["rows"]
    assert "peers_left_out" not in document and list(document["peers"]) == [peer]
    assert [row["size"] for row in rows] == [row["size"] for row in document["rows"]] == _SIZES
    assert set(rows[0]) == set(document["rows"][0])
    for row in rows:
        assert row["library"] == peer and row["wrong"] == 0 and row["time_us"] > 0
        # What a lab's buckets have saved may go beyond the limit; a wrong limit would be off by a rail.
        assert 0 < row["of_limit"] < 1.3
    large = {rail["name"]: rail for rail in rows[1]["rails"]}
    assert [large[name]["rate_gbps"] for name in ("eth0", "eth1")] == [0.2, 0.1]
    assert sum(rail["share"] for rail in large.values()) == pytest.approx(1)
    # Of two ranks each sends every byte once at least. The interfaces count what has left their queues:
    # the last bytes of an operation may be missing.
    assert sum(rail["bytes"] for rail in large.values()) > 1.5 * _SIZES[1]
    assert picture.read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"


@pytest.mark.parametrize("peer", ["openmpi-ring", "mpich-ring"])
def test_a_ring_sends_what_a_ring_sends(peer: str, tmp_path: Path) -> None:
    """Of four ranks each sends 1.5 times the vector; exchanges of whole vectors send it twice."""
    file = tmp_path / "all.json"
    done = _compare(peer, "--nodes", "4", "-b", "1M", "-e", "1M", "--iters", "20", "--json", str(file))
    assert done.returncode == 0, done.stderr
    (row,) = json.loads(file.read_text())["peers"][peer]["rows"]
    sent = sum(rail["bytes"] for rail in row["rails"]) / (4 * (1 << 20))
    assert 0.93 * 1.5 < sent < 1.2 * 1.5, row["rails"]


@pytest.mark.long
@pytest.mark.parametrize("collective, peer", [("all_reduce", "gloo"), ("all_reduce", "openmpi"),
                                              ("all_gather", "openmpi"), ("all_gather", "mpich")])
def test_several_ranks_on_a_node_are_measured_beside_nezha(collective: str, peer: str,
                                                           tmp_path: Path) -> None:
    file = tmp_path / "all.json"
    done = _compare(peer, "--ranks-per-node", "2", "--json", str(file), collective=collective)
    assert done.returncode == 0, done.stderr
    document = json.loads(file.read_text())
    for row, nezha in zip(document["peers"][peer]["rows"], document["rows"]):
        assert row["wrong"] == 0 and row["limit_us"] == nezha["limit_us"]
    # A node's devices are counted once: of 4 ranks on 2 nodes at least half a vector leaves each node,
    # and not all ranks send all there is.
    sent = sum(rail["bytes"] for rail in document["peers"][peer]["rows"][1]["rails"])
    assert 0.9 * _SIZES[1] < sent < 6 * _SIZES[1]


@pytest.mark.parametrize("library", ["openmpi", "mpich"])
def test_the_best_of_a_library_stands_beside_its_default(library: str, tmp_path: Path) -> None:
    file = tmp_path / "all.json"
    done = _compare(library, "--compare", f"{library}-default,{library}-ring", "--json", str(file))
    assert done.returncode == 0, done.stderr
    document = json.loads(file.read_text())
    rows = [document["peers"][name]["rows"] for name in (library, f"{library}-ring")]
    found = document["best"][library]
    assert found["settings"] == [library, f"{library}-ring"]
    for best, *each in zip(found["rows"], *rows):
        assert best["time_us"] == min(row["time_us"] for row in each)
    assert _titles(done.stdout)[1] == f"# {library} (the best of 2 settings), same lab, same rule"


def test_gloo_has_one_rail_the_fastest(tmp_path: Path) -> None:
    file = tmp_path / "all.json"
    done = _compare("gloo", "--rates", "100mbit,200mbit", "--json", str(file))
    assert done.returncode == 0, done.stderr
    large = json.loads(file.read_text())["peers"]["gloo"]["rows"][1]
    shares = {rail["name"]: rail["share"] for rail in large["rails"]}
    assert shares["eth1"] > 0.95, shares


def test_gloo_over_mptcp_has_both(tmp_path: Path) -> None:
    file = tmp_path / "all.json"
    done = _compare("gloo-mptcp", "-b", "1M", "-e", "1M", "--rates", "200mbit,200mbit", "--json",
                    str(file))
    assert done.returncode == 0, done.stderr
    (row,) = json.loads(file.read_text())["peers"]["gloo-mptcp"]["rows"]
    assert min(rail["share"] for rail in row["rails"]) > 0.2, row["rails"]


@pytest.mark.parametrize("setting, first", [("halves", 0.5), ("rates", 2 / 3)])
def test_gloo_with_a_process_group_on_each_rail(setting: str, first: float, tmp_path: Path) -> None:
    file = tmp_path / "all.json"
    done = _compare(f"gloo-{setting}", "-b", "1M", "-e", "1M", "--json", str(file))
    assert done.returncode == 0, done.stderr
    (row,) = json.loads(file.read_text())["peers"][f"gloo-{setting}"]["rows"]
    shares = {rail["name"]: rail["share"] for rail in row["rails"]}
    assert row["wrong"] == 0 and shares["eth0"] == pytest.approx(first, abs=0.05), shares


@pytest.mark.parametrize("peer, arguments", [("gloo", ("--out-of-place",)), ("openmpi", ("-o", "max"))])
def test_what_cannot_be_compared_is_said_in_the_json(peer: str, arguments: List[str]) -> None:
    done = _compare(peer, *arguments, "--json", "-")
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert "compared for all_reduce" in document["peers_left_out"][peer] and "peers" not in document
