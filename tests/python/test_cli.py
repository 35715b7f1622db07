"""The command: what it prints, how it exits."""

import json
import os
import socket
import re
import subprocess
import sys

import pytest

from nezha_tools.info import reach

PATIENCE_S = 120


def nezha(*arguments, **options):
    code = "import sys; sys.argv[0] = 'nezha'; from nezha_tools.main import main; main()"
    return subprocess.run([sys.executable, "-c", code, *arguments], text=True,
                          capture_output=True, timeout=PATIENCE_S, **options)


def test_unknown_command():
    done = nezha("collect")
    assert done.returncode == 2 and "collect" in done.stderr


def test_version():
    from nezha import __version__

    lines = dict(line.split(" ", 1) for line in nezha("--version").stdout.splitlines())
    assert list(lines) == ["nezha", "commit", "compiler", "modules"]
    assert lines["nezha"] == __version__ and re.fullmatch("[0-9a-f]{7,40}|unknown", lines["commit"])
    assert "protection" in lines["modules"].split(", ") and lines["compiler"]


def test_run_reports_the_first_failure():
    done = nezha("run", "-n", "2", "--grace", "0", "sh", "-c",
                 "[ $RANK = 0 ] && sleep 1000; echo words >&2; exit 5")
    assert done.returncode == 5
    assert "rank 1 (here) ended with exit code 5" in done.stderr and "| words" in done.stderr


def test_run_json():
    done = nezha("run", "-n", "2", "--json", "--", "sh", "-c", "echo $RANK; exit $RANK")
    summary = json.loads(done.stdout)
    assert done.returncode == summary["exit_code"] == 1
    assert summary["first_failure"]["rank"] == 1
    assert "[0] 0" in done.stderr


def test_demo_takes_no_command():
    shown = nezha("demo", "--help").stdout
    assert "second network" in shown and "COMMAND" not in shown


def test_run_passes_options_of_the_command_on():
    done = nezha("run", "echo", "-n", "--json", "--help")
    assert done.stdout == "[0] --json --help\n"


@pytest.mark.parametrize("arguments, words", [
    (["--lab", "no-such-lab", "true"], "no-such-lab"),
    (["--hostfile", "/no/such/file", "true"], "/no/such/file"),
    (["--env", "SURELY_NOT_SET_HERE", "true"], "SURELY_NOT_SET_HERE"),
    (["--lab", "a", "--hostfile", "b", "true"], "exclude"),
    (["-n", "0", "true"], "'0' is not a number of 1 or more"),
    (["-n", "many", "true"], "'many' is not a number of 1 or more"),
    (["--nonsense", "true"], "--nonsense"),
    ([], "COMMAND is missing"),
])
def test_run_refuses(arguments, words):
    done = nezha("run", *arguments)
    assert done.returncode == 125 and words in done.stderr
    assert "Traceback" not in done.stderr


def test_ranks_meet():
    code = ("import nezha, numpy\n"
            "with nezha.init() as comm:\n"
            "    print(comm.all_reduce(numpy.full(3, comm.rank + 1.0)))\n")
    done = nezha("run", "-n", "3", sys.executable, "-c", code, env={**os.environ})
    assert done.returncode == 0, done.stderr
    assert sorted(done.stdout.splitlines()) == [f"[{r}] [6. 6. 6.]" for r in range(3)]


def test_info():
    done = nezha("info", "--json")
    answer = json.loads(done.stdout)
    assert done.returncode == 0
    assert any(device["device"] == "lo" for device in answer["devices"])
    assert answer["build"]["version"]
    fabric = answer["fabric"]
    assert (fabric["library"] is None) == bool(fabric["missing"])
    shown = nezha("info").stdout
    assert "loopback" in shown and "127.0.0.1/8" in shown
    assert "libfabric" in shown


def test_info_config_names_every_option():
    done = nezha("info", "--config", "--json")
    assert "chunk_bytes" in done.stdout
    assert json.loads(done.stdout)["config"]


def test_explain():
    done = nezha("explain", "all_reduce", "--bytes", "1M", "--world-size", "4", "--rates",
                 "1gbit:30us,500mbit:30us", "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["division"]["shares"] == pytest.approx([2 / 3, 1 / 3], abs=1e-3)
    fast, same = (json.loads(nezha("explain", "all_reduce", "--rates", f"{rate}:30us,{rate}:30us",
                                   "--json").stdout) for rate in ("400G", "50GB/s"))
    assert fast == same and "100.000 GB/s" in fast["text"]
    for size, rule in (("16K", "times"), ("4M", "backlog")):
        done = nezha("explain", "all_reduce", "--bytes", size)
        assert f"(rule: {rule})" in done.stdout and "Rails, as the policy pull" in done.stdout
    shown = nezha("explain", "all_reduce", "--bytes", "64K", "--schedule", "--rank", "1")
    assert shown.returncode == 0 and "chosen" in shown.stdout and "send" in shown.stdout


@pytest.mark.parametrize("arguments, words", [
    (["all_reduce", "--bytes", "many"], "many"),
    (["all_reduce", "--rates", "fast"], "fast"),
    (["all_reduce", "--rates", "5:1us"], "rates '5': it must be a rate above 0 with its unit"),
    (["all_reduce", "--rates", "1gbit:30us," * 16 + "1gbit:30us"], "17 rails; it must be 1 to 16"),
    (["all_together"], "all_together"),
])
def test_explain_refuses(arguments, words):
    done = nezha("explain", *arguments)
    assert done.returncode == 2 and words in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("arguments, words", [
    (["up", "--nodes", "0"], "0 nodes: want 1 to 250"),
    (["up", "--name", "a lab"], "lab name 'a lab'"),
    (["up", "--rates", "35gbit"], "want 64kbit to 34gbit"),
    (["shape", "fast"], "rate 'fast'"),
])
def test_lab_refuses(arguments, words):
    done = nezha("lab", *arguments)
    assert done.returncode == 2 and words in done.stderr and done.stderr.count("\n") == 1


def test_info_peer():
    done = nezha("info", "--filter", "lo", "--peer", "127.0.0.1", "--port", "1", "--json")
    row, = json.loads(done.stdout)["peer"]
    assert row["device"] == "lo" and row["result"] == "refused"
    shown = nezha("info", "--filter", "lo", "--peer", "127.0.0.1", "--port", "1").stdout
    assert shown.index("\nBuild\n") < shown.index("\n\nThe way to the peer\ndevice")
    done = nezha("info", "--peer", "no-such-host.invalid")
    assert done.returncode == 1 and "no-such-host.invalid" in done.stderr


def test_reach():
    rails = [{"device": "lo", "address": "127.0.0.1", "prefix_length": 8, "usable": True},
             {"device": "lo", "address": "127.0.0.2", "prefix_length": 8, "usable": False},
             {"device": "x", "address": "", "prefix_length": 0, "usable": True}]
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port = listener.getsockname()[1]
        row, = reach.reach(rails, "127.0.0.1", port, 2.0)
        assert row["result"] == "refused"
        listener.listen()
        row, = reach.reach(rails, "127.0.0.1", port, 2.0)
        assert row["result"] == "open" and row["ms"] >= 0
    rails[0]["prefix_length"] = 32
    row, = reach.reach(rails, "127.0.0.2", port, 2.0)
    assert row["detail"] == "127.0.0.2 is not in this rail's network, 127.0.0.1/32"
    row, = reach.reach(rails, "::1", port, 2.0)
    assert row["result"] == "unreachable"
