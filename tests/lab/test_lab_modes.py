"""Labs without privileges: a user namespace, and plain loopback addresses."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from typing import Any, List, Optional

import pytest
from conftest import child_env, eventually, left_behind, nezha_lab, start_python

from nezha.lab import Capability, Lab, LabError, capabilities
from nezha_tools.lab import _lab as lab_module, _state, _userns

_SHOW = "import json, os; print(json.dumps(dict(os.environ)))"


def _need_userns() -> None:
    reason = _userns.probe()
    if reason:
        pytest.skip(f"no user namespaces: {reason}")


def test_capabilities_name_a_mode_and_a_reason() -> None:
    can = capabilities()
    assert can.mode in ("root", "userns", "loopback") and can.reason


def test_a_loopback_lab_gives_every_rank_its_own_addresses() -> None:
    with Lab(2, ["1gbit", "500mbit"], mode="loopback", name="t-loop") as lab:
        ran = lab.exec(1, [sys.executable, "-c", _SHOW], capture_output=True, text=True)
        env = json.loads(ran.stdout)
        assert env["NEZHA_RAILS"] == "127.1.0.2/32,127.2.0.2/32"
        for block in env["NEZHA_RAILS"].split(","):
            with socket.socket() as probe:
                probe.bind((block.split("/")[0], 0))
        ranks = [lab.rank_env(i) for i in range(2)]
        assert [r["RANK"] for r in ranks] == ["0", "1"]
        assert {r["MASTER_ADDR"] for r in ranks} == {"127.0.0.1"}
        assert ranks[0]["MASTER_PORT"] == ranks[1]["MASTER_PORT"]
    assert left_behind("t-loop") == []


_NEAR = """
import json, nezha
with nezha.init() as comm:
    comm.barrier()
    near = {peer["rank"] for rail in comm.rails() for peer in rail["peers"]
            if peer["path"].startswith("shared memory")}
    print(json.dumps([comm.stats()["host_of"], sorted(near)]))
"""


@pytest.mark.parametrize("mode", [None, "loopback"])
def test_nodes_are_hosts_and_only_ranks_of_one_share_memory(mode: Optional[str]) -> None:
    with Lab(2, ["none", "none"], mode=mode, ranks_per_node=2) as lab:
        ranks = [lab.popen(lab.node_of(rank), [sys.executable, "-c", _NEAR], env=lab.rank_env(rank),
                           stdout=subprocess.PIPE, text=True) for rank in range(lab.ranks)]
        found = [json.loads(rank.communicate(timeout=60)[0]) for rank in ranks]
    assert found == [[[0, 0, 1, 1], [near]] for near in (1, 0, 3, 2)]


_WHERE = """
import os
print("/".join(os.environ[name] for name in ("RANK", "NEZHA_LAB_NODE", "LOCAL_RANK", "LOCAL_WORLD_SIZE")))
"""


@pytest.mark.parametrize("ranks, found", [([], ["0/0/0/2", "1/0/1/2", "2/1/0/2", "3/1/1/2"]),
                                          (["-n", "3"], ["0/0/0/2", "1/0/1/2", "2/1/0/1"])])
def test_run_fills_node_after_node(ranks: List[str], found: List[str]) -> None:
    with Lab(2, ["none"], mode="loopback", ranks_per_node=2) as lab:
        done = subprocess.run(
            [sys.executable, "-c", "from nezha_tools.main import main; main()", "run", "--lab", lab.name,
             *ranks, sys.executable, "-c", _WHERE],
            env=child_env(), text=True, capture_output=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert sorted(line.split()[-1] for line in done.stdout.splitlines()) == found


def test_a_loopback_lab_says_that_it_is_not_shaped_and_refuses_to_pretend() -> None:
    with Lab(2, ["1gbit"], mode="loopback") as lab:
        assert lab.mode == "loopback" and lab.rates() == [0]
        report = lab.status()
        assert report["mode"] == "loopback" and not report["shaped"]
        for action in (lambda: lab.shape(["1gbit"]), lambda: lab.slow(0, 0, "1mbit"),
                       lambda: lab.cut(0, 0), lambda: lab.restore(0, 0),
                       lambda: lab.block_port(0, 0)):
            with pytest.raises(LabError, match="loopback lab"):
                action()


def test_without_namespaces_the_lab_falls_back_and_says_so(monkeypatch: Any,
                                                           capfd: Any) -> None:
    refused = Capability("loopback", "not root, and no user namespaces")
    monkeypatch.setattr(lab_module, "capabilities", lambda: refused)
    with Lab(2, ["1gbit"]) as lab:
        assert lab.mode == "loopback"
    said = capfd.readouterr().err
    assert "no user namespaces" in said and "NOT applied" in said
    for mode in ("root", "userns"):
        with pytest.raises(LabError, match="not possible here"):
            Lab(2, ["1gbit"], mode=mode).up()


def test_a_loopback_lab_ends_its_processes_too() -> None:
    lab = Lab(1, ["1gbit"], mode="loopback").up()
    child = lab.popen(0, ["sleep", "600"])
    lab.down()
    assert child.wait(10) != 0


def test_status_of_a_loopback_lab_is_printed_as_unshaped() -> None:
    try:
        made = nezha_lab("up", "--mode", "loopback", "--nodes", "2", "--name", "t-looped")
        assert made.returncode == 0 and "loopback" in made.stdout, made.stderr
        assert "UNSHAPED" in nezha_lab("status", "--name", "t-looped").stdout
    finally:
        nezha_lab("down", "--name", "t-looped")


def test_a_user_namespace_holds_a_whole_lab_for_one_command() -> None:
    _need_userns()
    code = """
import subprocess
from nezha.lab import Lab
with Lab(2, ["100mbit"], mode="userns", name="t-user") as lab:
    show = lab.exec(1, ["sh", "-c", "cut -d: -f1 /proc/net/dev | tail -n +3"],
                    stdout=subprocess.PIPE, text=True).stdout
    lab.slow(0, 0, "10mbit")
    lab.cut(0, 0, silent=True)
    port = lab.status()["nodes"][0]["ports"][0]
    print(lab.mode, sorted(show.split()), port["rate_bps"], port["cut"])
"""
    with start_python(code) as child:
        out, err = child.communicate(timeout=60)
    assert child.returncode == 0, err
    assert out.strip() == f"userns {['ctl', 'eth0', 'lo']} 10000000 both"
    assert left_behind("t-user") == []


def test_a_lasting_lab_in_a_user_namespace_can_be_used_by_later_commands() -> None:
    _need_userns()
    name = "t-held"
    try:
        made = nezha_lab("up", "--mode", "userns", "--nodes", "2", "--rates", "1gbit", "--name", name)
        assert made.returncode == 0, made.stderr
        ran = nezha_lab("exec", "1", "--name", name, "--", "cat", "/proc/net/dev")
        assert ran.returncode == 0 and "eth0" in ran.stdout and "ctl" in ran.stdout, ran.stderr
        assert nezha_lab("slow", "0", "0", "10mbit", "--name", name).returncode == 0
        shown = json.loads(nezha_lab("status", "--name", name, "--json").stdout)
        assert shown[0]["nodes"][0]["ports"][0]["rate_bps"] == 10**7
        holder = _state.load(name).holder
        assert os.path.exists(f"/proc/{holder}")
        assert nezha_lab("exec", "0", "--name", name, "--", "true").returncode == 0
    finally:
        gone = nezha_lab("down", "--name", name)
    assert gone.returncode == 0 and left_behind(name) == []
    assert eventually(lambda: _ended(holder))


def _ended(pid: int) -> bool:
    ran = subprocess.run(["cat", f"/proc/{pid}/stat"], capture_output=True, text=True, check=False)
    return ran.returncode != 0 or ") Z" in ran.stdout
