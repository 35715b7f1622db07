"""`nezha sim rails` and `nezha sim switch` as commands: tables, JSON, pictures, mistakes, Ctrl-C."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from dataclasses import replace

import pytest
from typer.testing import CliRunner

from nezha_study.sim.command import app
from nezha_study.sim.rails import findings, rail_tables, rail_study
from nezha_study.sim.rails.case import POLICIES

SMALL = ["rails", "--nodes", "4", "--rails", "2", "--messages", "5", "--mean", "4K"]


def run(*arguments):
    return CliRunner().invoke(app, list(arguments))


def answer(*arguments):
    done = run(*arguments)
    assert done.exit_code == 0, done.output
    return done.stdout


@pytest.mark.parametrize("command", ["rails", "switch"])
def test_help(command):
    for option in ("-h", "--help"):
        assert "Examples:" in answer(command, option)
    assert command in answer("--help")


def test_rails():
    shown = answer(*SMALL, "--loads", "0.2,0.9", "--policies", "dynamic,modulo")
    assert "4 hosts, 2 rails, messages of 4K" in shown
    assert len(re.findall(r"^(dynamic|modulo) ", shown, re.MULTILINE)) == 4
    document = json.loads(answer(*SMALL, "--loads", "0.2,0.9", "--striped", "--json"))
    assert len(document["runs"]) == 12 and all(row["striped"] for row in document["runs"])
    assert document == json.loads(answer(*SMALL, "--loads", "0.2,0.9", "--striped", "--json"))
    assert document != json.loads(answer(*SMALL, "--loads", "0.2,0.9", "--striped", "--json",
                                         "--seed", "2"))


def test_every_policy_by_name():
    shown = answer("rails", "--nodes", "4", "--rails", "4", "--messages", "5", "--loads", "0.3",
                   "--policies", ",".join(POLICIES))
    assert all(re.search(rf"^{policy} ", shown, re.MULTILINE) for policy in POLICIES)


def test_switch(tmp_path):
    shown = answer("switch", "--nodes", "2,16,4096")
    for words in ("block-allreduce of 8 B", "burst-allreduce of 64K", "growth from 2 to 4096 nodes",
                  "agg:250mbit", "ICCCN 2013"):
        assert words in shown, words
    pytest.importorskip("matplotlib")
    picture = tmp_path / "out" / "switch.png"
    target = tmp_path / "out" / "switch.json"
    answer("switch", "--nodes", "2,16", "--plot", str(picture), f"--json={target}")
    assert picture.read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"
    assert [row["nodes"] for row in json.loads(target.read_text())["rows"]] == [2, 16]


def test_what_does_not_follow_is_said_and_what_was_measured_has_its_machine():
    document = json.loads(answer("switch", "--nodes", "2,16", "--json"))
    gain = {row["what"]: row for row in document["checks"]}["times as fast as hosts, 16 nodes"]
    assert gain["kind"] == "computed" and gain["holds"] is False
    shown = " ".join(answer("switch", "--nodes", "2,16").split())
    machine = document["software_measured"]
    assert f"as measured on {machine['date']} on one machine ({machine['machine']})" in shown
    assert re.search(r"times as fast as hosts, 16 nodes 16 1\.\d+ computed no", shown), shown


@pytest.mark.parametrize("width", [60, 80])
def test_tables_fit(width, monkeypatch):
    from nezha_tools.cli import console

    wide = console.terminal

    def narrow(stderr=False):
        screen = wide(stderr)
        screen.width = width
        return screen

    monkeypatch.setattr(console, "terminal", narrow)
    for arguments in ([*SMALL, "--loads", "0.2"], ["switch", "--nodes", "2,4096"]):
        lines = answer(*arguments).splitlines()
        tables = [line for line in lines if "──" in line or re.match(r" *\d+ +\d", line)]
        assert tables and max(map(len, tables)) <= width


def test_the_study_is_whole(tmp_path, monkeypatch):
    """All of its runs, tables and pictures, with few messages; its statements need all of them."""
    pytest.importorskip("matplotlib")
    monkeypatch.setattr(rail_study, "LOADS", (0.5, 1.0))
    every = rail_study.experiments(1, 5)
    hosts = {case.hosts for each in every for case in each.cases}
    assert hosts == {32, 64, 128} and {case.rails for each in every for case in each.cases} >= {1, 8}
    assert {case.policy for each in every for case in each.cases} == set(POLICIES)
    smaller = [replace(each, cases=[replace(case, hosts=case.hosts // 16) for case in each.cases])
               for each in every]
    monkeypatch.setattr(rail_study, "experiments", lambda seed, messages: smaller)
    folder = tmp_path / "study"
    shown = answer("rails", "--study", "--messages", "5", "--to", str(folder))
    assert sorted(each.name for each in folder.iterdir()) == [
        "rail_study_hybrid_static.png", "rail_study_load.png", "rail_study_saturation.png", "study.json"]
    document = json.loads((folder / "study.json").read_text())
    assert {each["name"] for each in document["experiments"]} == {each.name for each in every}
    assert document["source"]["dynamic_over_local_dynamic_percent"]["value"] == 49
    assert "49" in shown and "37" in shown and "static behind" in shown


def test_a_folder_that_cannot_be_is_told_before_the_study(tmp_path, monkeypatch):
    pytest.importorskip("matplotlib")
    (tmp_path / "file").write_text("")
    monkeypatch.setattr(rail_study, "run",
                        lambda *arguments: pytest.fail("it computes for minutes first"))
    done = run("rails", "--study", "--to", str(tmp_path / "file" / "study"))
    assert done.exit_code == 1 and done.stderr.startswith("nezha sim rails: ")
    assert str(tmp_path / "file") in done.stderr and len(done.stderr.splitlines()) == 1


def test_statements_say_when_they_do_not_hold():
    """The column that says whether the source and the simulation agree is not a constant."""
    assert findings._ahead("", 49, 1.0)["same_sign"] and not findings._ahead("", 49, -1.0)["same_sign"]


def test_ctrl_c_leaves_nothing_half_written(tmp_path):
    folder = tmp_path / "study"
    command = [sys.executable, "-c", "from nezha_tools.main import main; main()", "sim", "rails",
               "--study", "--messages", "500", "--to", str(folder)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                               start_new_session=True)
    while len(children(process.pid)) < 1:  # its workers run
        assert process.poll() is None
        time.sleep(0.02)
    os.kill(process.pid, signal.SIGINT)
    assert process.wait(120) == 130
    assert not list(folder.rglob("*"))


def children(pid):
    with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as file:
        return file.read().split()


def test_a_failure_while_writing_leaves_nothing(tmp_path, monkeypatch):
    from nezha_study.sim.rails import rail_figures

    def fails(*arguments):
        raise OSError("disk full")

    monkeypatch.setattr(rail_figures, "saturation", fails)
    monkeypatch.setattr(rail_figures, "against_load", lambda panels, path: path.write_bytes(b"a picture"))
    experiments = [{"name": name, "rows": []} for name in (
        "load_4k", "load_64k", "hosts", "size", "rails", "hybrid", "mixed", "static")]
    with pytest.raises(OSError, match="disk full"):
        rail_tables.write({"experiments": experiments}, tmp_path)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("arguments, words", [
    (["rails", "--nodes", "0"], "nodes 0: it must be a whole number from 2 to 1024"),
    (["rails", "--rails", "-1"], "rails -1: it must be"),
    (["rails", "--mean", "many"], "size 'many'"),
    (["rails", "--mean", "0"], "mean 0: it must be"),
    (["rails", "--loads", "-0.5"], "load -0.5: it must be a number above 0"),
    (["rails", "--loads", "full"], "loads 'full': it must be a number"),
    (["rails", "--policies", "fair"], "policy 'fair': it must be one of"),
    (["rails", "--policies", "static", "--nodes", "128"], "rails 4: it must be at least 10"),
    (["rails", "--messages", "1"], "messages 1: it must be a whole number from 5"),
    (["rails", "--seed", "-1"], "seed -1: it must be"),
    (["rails", "--study", "--nodes", "64"], "--nodes does not go with --study"),
    (["rails", "--to", "here"], "--to belongs to --study"),
    (["switch", "--nodes", "1"], "nodes 1: it must be a whole number from 2"),
    (["switch", "--nodes", "a few"], "nodes 'a few': it must be"),
    (["switch", "--rate", "-10Gbit/s"], "rate '-10Gbit/s': it must be"),
    (["switch", "--rate", "10"], "rate '10': it must be a rate above 0 with its unit"),
    (["switch", "--block", "2K"], "block 2048: it must be a whole number from 1 to 1024"),
    (["switch", "--radix", "1"], "radix 1: it must be"),
    (["switch", "--round-us", "0"], "round-us 0.0: it must be a time above 0"),
])
def test_mistakes_are_one_sentence(arguments, words):
    done = run(*arguments)
    assert done.exit_code == 2, done.output
    sentence, = done.output.strip().splitlines()
    assert sentence.startswith(f"nezha sim {arguments[0]}: ") and words in sentence
