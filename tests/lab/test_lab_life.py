"""A lab's life: up, commands, down, and every way its owner can end."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from typing import Any

import pytest
from conftest import eventually, left_behind, nezha_lab, start_python

from nezha.lab import Lab, LabError, names, tear_down
from nezha_tools.lab import _lab as lab_module, _topology

pytestmark = pytest.mark.usefixtures("namespaces")

_OWNER = """
import sys, time
from nezha.lab import Lab
with Lab(2, ["1gbit"], name={name!r}) as lab:
    child = lab.popen(1, [sys.executable, "-c", "import time; time.sleep(600)"])
    print(child.pid, flush=True)
    time.sleep(600)
"""


def _out(lab: Lab, node: int, *command: str) -> str:
    return lab.exec(node, command, capture_output=True, text=True, check=True).stdout


def test_up_and_down_leave_nothing_and_down_again_is_no_error() -> None:
    lab = Lab(3, ["1gbit", "500mbit"], name="t-life").up()
    assert left_behind("t-life") and "t-life" in names()
    lab.down()
    lab.down()
    assert left_behind("t-life") == []
    assert tear_down("t-life") is False
    with pytest.raises(LabError, match="not up"):
        lab.exec(0, ["true"])


def test_nodes_have_their_devices_addresses_and_settings() -> None:
    with Lab(2, ["1gbit", "500mbit"], mtu=4000) as lab:
        if lab.state.own_sysfs:
            assert _out(lab, 1, "ls", "/sys/class/net").split() == ["ctl", "eth0", "eth1", "lo"]
            assert _out(lab, 1, "cat", "/sys/class/net/eth1/mtu").strip() == "4000"
        sysctls = "/proc/sys/net/ipv4/"
        for path, want in (("conf/all/arp_ignore", "1"), ("conf/all/arp_announce", "2"),
                           ("conf/all/rp_filter", "0"), ("tcp_no_metrics_save", "1"),
                           ("tcp_congestion_control", lab.state.congestion_control)):
            assert _out(lab, 0, "cat", sysctls + path).strip() == want
        report = lab.status()
        port = report["nodes"][1]["ports"][1]
        assert (port["device"], port["address"], port["carrier"]) == ("eth1", "10.2.0.2/24", True)
        assert (port["rate_bps"], port["cut"]) == (500_000_000, "no")
        assert report["shaped"] and report["owner"] == os.getpid() and report["owner_alive"]
        assert lab.rates() == [10**9, 5 * 10**8]


def test_processes_know_their_lab_and_ranks_their_world() -> None:
    show = "import os, json; print(json.dumps(dict(os.environ)))"
    with Lab(2, ["1gbit", "1gbit"], name="t-env") as lab:
        seen = eval(_out(lab, 1, sys.executable, "-c", show))
        assert (seen["NEZHA_LAB"], seen["NEZHA_LAB_NODE"]) == ("t-env", "1")
        assert "RANK" not in seen
        env = lab.rank_env(1)
        assert (env["RANK"], env["WORLD_SIZE"], env["MASTER_ADDR"]) == ("1", "2", "10.255.0.1")
        assert env["NEZHA_RAILS"] == "=eth0,eth1" and int(env["MASTER_PORT"]) > 0
        with pytest.raises(LabError, match="no node 2"):
            lab.popen(2, ["true"])


def test_exec_gives_back_output_code_and_timeout() -> None:
    with Lab(1, ["none"]) as lab:
        assert lab.exec(0, ["sh", "-c", "exit 7"]).returncode == 7
        with pytest.raises(subprocess.CalledProcessError):
            lab.exec(0, ["false"], check=True)
        with pytest.raises(subprocess.TimeoutExpired):
            lab.exec(0, ["sleep", "600"], timeout=0.2)
        with pytest.raises(OSError):
            lab.exec(0, ["no-such-command-anywhere"])


def test_two_labs_stand_side_by_side_with_the_same_addresses() -> None:
    serve = ("import socket, sys; s = socket.create_server(('10.1.0.1', 7001));"
             "print('ready', flush=True)\nwhile True: s.accept()[0].sendall(sys.argv[1].encode())")
    fetch = ("import socket; s = socket.create_connection(('10.1.0.1', 7001), timeout=10);"
             "print(s.recv(9).decode())")
    with Lab(2, ["1gbit"], name="t-one") as one, Lab(2, ["1gbit"], name="t-two") as two:
        for lab in (one, two):
            server = lab.popen(0, [sys.executable, "-c", serve, lab.name], stdout=subprocess.PIPE)
            assert server.stdout.readline() == b"ready\n"
        assert _out(one, 1, sys.executable, "-c", fetch).strip() == "t-one"
        assert _out(two, 1, sys.executable, "-c", fetch).strip() == "t-two"
        one.down()
        assert left_behind("t-one") == []
        assert _out(two, 1, sys.executable, "-c", fetch).strip() == "t-two"


def test_a_taken_name_is_refused_and_its_lab_unharmed() -> None:
    with Lab(1, ["1gbit"], name="t-taken") as lab:
        with pytest.raises(LabError, match="t-taken.*already up.*down --name t-taken"):
            Lab(1, ["1gbit"], name="t-taken").up()
        assert lab.exec(0, ["true"]).returncode == 0


@pytest.mark.parametrize("step", ["build_switch", "build_node", "plug_ports"])
def test_a_failure_half_way_takes_everything_back(step: str, monkeypatch: Any) -> None:
    def fail(*_: object) -> None:
        raise OSError(28, "made up for this test")

    monkeypatch.setattr(_topology, step, fail)
    with pytest.raises(LabError, match="was removed.*made up"):
        Lab(2, ["1gbit"], name="t-roll").up()
    assert left_behind("t-roll") == []


def test_an_unknown_congestion_control_is_refused_and_rolled_back() -> None:
    with pytest.raises(LabError, match="no_such_cc"):
        Lab(1, ["1gbit"], name="t-cc", congestion_control="no_such_cc").up()
    assert left_behind("t-cc") == []


def test_down_ends_the_processes_inside() -> None:
    lab = Lab(1, ["1gbit"]).up()
    stubborn = lab.popen(0, [sys.executable, "-c", "import signal, time;"
                             "signal.signal(signal.SIGTERM, signal.SIG_IGN);"
                             "print('deaf', flush=True); time.sleep(600)"], stdout=subprocess.PIPE)
    assert stubborn.stdout.readline() == b"deaf\n"
    lab.down()
    assert stubborn.wait(10) == -signal.SIGKILL


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_lab_ends_with_its_owner_however_that_ends(number: signal.Signals) -> None:
    name = f"t-owner-{number.name}"
    with start_python(_OWNER.format(name=name)) as owner:
        inside = int(owner.stdout.readline())
        assert left_behind(name)
        owner.send_signal(number)
        owner.communicate(timeout=30)
        assert owner.returncode != 0
    assert eventually(lambda: left_behind(name) == [])
    assert eventually(lambda: not _lives(inside))


def _lives(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii") as file:
            return file.read().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_a_forked_childs_exit_does_not_end_the_parents_lab() -> None:
    with Lab(1, ["1gbit"], name="t-fork") as lab:
        child = os.fork()
        if child == 0:
            lab.down()
            os._exit(0)
        os.waitpid(child, 0)
        assert left_behind("t-fork") and lab.exec(0, ["true"]).returncode == 0


def test_commands_build_use_and_remove_a_lasting_lab() -> None:
    name = "t-cli"
    try:
        made = nezha_lab("up", "--nodes", "2", "--rates", "1gbit,none", "--name", name)
        assert made.returncode == 0 and "2 nodes, rails 1gbit, none" in made.stdout, made.stderr
        assert nezha_lab("up", "--name", name).returncode == 1
        ran = nezha_lab("exec", "all", "--name", name, "--", "sh", "-c", "echo $RANK; exit $RANK")
        assert sorted(ran.stdout.split()) == ["0", "1"] and ran.returncode == 1
        for program, code in [(("sh", "-c", "exit 2"), 2), (("ls", "-h"), 0), (("no-such",), 127)]:
            assert nezha_lab("exec", "0", "--name", name, *program).returncode == code
        assert nezha_lab("slow", "1", "eth0", "100mbit", "--name", name).returncode == 0
        assert nezha_lab("cut", "0", "1", "--silent", "--name", name).returncode == 0
        shown = nezha_lab("status", "--name", name).stdout
        assert "100mbit" in shown and "silently cut" in shown
        assert nezha_lab("restore", "0", "1", "--name", name).returncode == 0
        refused = nezha_lab("cut", "0", "9", "--name", name)
        assert refused.returncode == 1 and "it has 0 (eth0), 1 (eth1)" in refused.stderr
    finally:
        gone = nezha_lab("down", "--name", name)
    assert gone.returncode == 0 and left_behind(name) == []
    assert nezha_lab("down", "--name", name).returncode == 0
    assert nezha_lab("exec", "0", "--name", name, "--", "true").returncode == 125


def test_another_process_sees_and_changes_the_same_lab() -> None:
    with Lab(1, ["1gbit"], name="t-share") as lab:
        other = lab_module.Lab.attach("t-share")
        other.slow(0, 0, "200mbit")
        other.down()  # from a process or object that does not own it: ends it all the same
        assert left_behind("t-share") == []
        with pytest.raises(LabError, match="taken down"):
            lab.exec(0, ["true"])
