"""Flight dumps and straggler reports of real ranks."""

import json
import os
import signal
import subprocess
import sys
import time

import numpy
import pytest
from typer.testing import CliRunner

import nezha
from nezha_tools.flight import command as flight_command
from nezha_tools.flight import analyse, choose_run, parse, read_files

PATIENCE_S = 60


def test_a_rank_says_what_it_did(world):
    def body(comm):
        for _ in range(3):
            comm.all_reduce(numpy.ones(10))
        if comm.rank == 0:
            comm.send(numpy.ones(4), 1, tag=7)
        else:
            comm.recv(numpy.ones(4), 0, tag=7)
        comm.barrier()
        return comm.flight()

    for rank, content in enumerate(world(2, body)):
        dump = parse(content)
        assert (dump.rank, dump.world_size, dump.pid) == (rank, 2, os.getpid())
        calls = [(call.collective, call.state) for call in dump.operations]
        assert calls == 3 * [("all_reduce", "done")] + [("send_recv", "done"), ("barrier", "done")]
        assert [call.op_seq for call in dump.operations] == [0, 1, 2, None, 3]
        assert [call.direction for call in dump.operations][3] == ("receive" if rank else "send")
        assert all(call.submitted_us <= call.started_us <= call.finished_us
                   for call in dump.operations)
        assert abs(dump.written_us / 1e6 - time.time()) < 3600
        assert dump.rail_events[0].event == "joined"
        assert dump.communicators[0].members == (0, 1)


def test_dumps_are_written_by_call(world, tmp_path):
    def body(comm):
        comm.barrier()
        return comm.dump_flight(tmp_path / f"{comm.rank}.json")

    assert world(2, body) == [str(tmp_path / "0.json"), str(tmp_path / "1.json")]
    dumps, problems = read_files([str(tmp_path)])
    assert len(dumps) == 2 and not problems and analyse(dumps).findings == ()
    shown = CliRunner().invoke(flight_command.app, [str(tmp_path)])
    assert shown.exit_code == 0 and "nothing is wrong" in shown.stdout


def test_a_folder_without_dumps_says_nothing_about_a_job(tmp_path):
    shown = CliRunner().invoke(flight_command.app, [str(tmp_path)])
    assert shown.exit_code == 2 and "no usable dump" in shown.stderr


def test_a_dump_that_cannot_be_written(world, tmp_path):
    def body(comm):
        with pytest.raises(nezha.InvalidArgument, match="nowhere"):
            comm.dump_flight(tmp_path / "nowhere" / "0.json")
        comm.barrier()

    world(2, body)


def test_dumps_are_written_when_ranks_disagree(world, tmp_path):
    def body(comm):
        comm.all_reduce(numpy.ones(10))
        with pytest.raises(nezha.Mismatch):
            comm.all_reduce(numpy.ones(11 if comm.rank == 2 else 10))
            comm.barrier()

    world(3, body, config={"flight_dump": str(tmp_path / "dumps")})
    dumps, problems = read_files([str(tmp_path / "dumps")])
    assert len(dumps) == 3 and not problems
    assert {dump.reason for dump in dumps} == {"error"}
    found = analyse(choose_run(dumps)[0]).findings[0]
    # Rank 0 may hear of the disagreement before its call: then one's word stands against the other's.
    assert (found.kind, found.op_seq) == ("mismatch", 1) and found.ranks in ((2,), (1, 2), (0, 2))
    assert found.details["field"] == "count"
    shown = CliRunner().invoke(flight_command.app, [str(tmp_path / "dumps"), "--json"])
    assert shown.exit_code == 1 and json.loads(shown.stdout)["findings"][0]["kind"] == "mismatch"


def test_a_secret_is_in_no_dump(world, tmp_path):
    secret = "correct-horse-battery-staple"

    def body(comm):
        comm.barrier()
        return comm.dump_flight(tmp_path / f"{comm.rank}.json")

    for name in world(2, body, config={"secret": secret}):
        with open(name) as file:
            assert secret not in file.read()


RANK = """
import os, sys, time, numpy, nezha
with nezha.init(int(sys.argv[1]), 2, store=sys.argv[2], timeout=60,
                config={"flight_dump": sys.argv[3], "flight_signal": "SIGUSR1"}) as comm:
    comm.barrier()
    print("ready", flush=True)
    if comm.rank == 1:
        sys.stdin.readline()
    comm.all_reduce(numpy.ones(5))
"""


def test_dumps_are_written_at_a_signal_and_name_the_absent(tmp_path):
    store = f"file://{tmp_path}/store"
    folder = tmp_path / "dumps"
    ranks = [subprocess.Popen([sys.executable, "-c", RANK, str(rank), store, str(folder)],
                              stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
             for rank in range(2)]
    try:
        for rank in ranks:
            assert rank.stdout.readline() == "ready\n"
        deadline = time.monotonic() + PATIENCE_S
        found = []
        # Until rank 0 has come to the call that rank 1 does not make.
        while time.monotonic() < deadline and not (found and found[0].kind == "missing_call"):
            for rank in ranks:
                rank.send_signal(signal.SIGUSR1)
            time.sleep(0.1)
            dumps = read_files([str(folder)])[0] if folder.is_dir() else []
            found = analyse(dumps).findings if len(dumps) == 2 else []
        assert (found[0].kind, found[0].ranks, found[0].op_seq) == ("missing_call", (1,), 1)
        assert {dump.reason for dump in dumps} == {"signal"}
        shown = subprocess.run(
            [sys.executable, "-c", "from nezha_tools.main import main; main()", "flight", str(folder)],
            text=True, capture_output=True, timeout=PATIENCE_S)
        assert shown.returncode == 1 and "Verdict: rank 0 waits for rank 1" in shown.stdout
        ranks[1].stdin.write("go\n")
        ranks[1].stdin.flush()
        assert [rank.wait(PATIENCE_S) for rank in ranks] == [0, 0]
    finally:
        for rank in ranks:
            rank.kill()
            rank.communicate()


def test_a_bad_signal_is_refused():
    with pytest.raises(nezha.InvalidArgument, match="SIGUSR1"):
        nezha.init(0, 1, store="hash://flight-signal", config={"flight_signal": "SIGKILL"})


def test_who_is_absent_is_known_while_waiting(world):
    def body(comm):
        comm.barrier()
        if comm.rank == 1:
            comm.recv(numpy.zeros(1), 0)  # rank 0 has seen that we are not there
            comm.all_reduce(numpy.ones(5))
            return None
        work = comm.all_reduce(numpy.ones(5), async_op=True)
        deadline = time.monotonic() + PATIENCE_S / 2
        report = comm.stragglers()
        while report["ranks"][0]["heard_s_ago"] is None or report["ranks"][0]["last"] is None:
            assert time.monotonic() < deadline
            time.sleep(0.01)
            report = comm.stragglers()
        comm.send(numpy.zeros(1), 1)
        work.wait()
        return report, comm.stragglers()

    waiting, after = world(2, body)[0]
    assert waiting["absent"] == [1] and waiting["waits_for"] == [1]
    assert waiting["operation"]["collective"] == "all_reduce" and waiting["operation"]["op_seq"] == 1
    assert waiting["ranks"][0]["last"]["collective"] == "barrier"
    assert not waiting["ranks"][0]["open"] and not waiting["ranks"][0]["called"]
    assert after["operation"] is None and after["absent"] == []


def test_a_dump_is_json_for_everybody(world):
    assert json.loads(json.dumps(world(1, lambda comm: comm.flight())[0]))["world_size"] == 1
