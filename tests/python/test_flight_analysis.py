"""Who is to blame: crafted dumps of several ranks."""

import json

import pytest

from nezha_tools.flight import DumpError, analyse, choose_run, parse, read_files

START_US = 1_700_000_000_000_000


def call(op_seq, collective="all_reduce", *, comm=0, at=None, took=100, state="done", **fields):
    """One operation as a dump has it; `at`: microseconds after the start."""
    submitted = START_US + (1000 * (op_seq or 0) if at is None else at)
    over = state in ("done", "failed")
    operation = {"comm": comm, "op_seq": op_seq, "collective": collective, "dtype": "float32",
                 "op": "sum" if collective == "all_reduce" else None,
                 "root": 0 if collective == "broadcast" else None, "count": 10,
                 "algorithm": "ring", "plan": 7, "submitted_us": submitted,
                 "started_us": submitted, "finished_us": submitted + took if over else None,
                 "state": state, "awaited": 0, "waits_for": [], "code": None, "error": None}
    operation.update(fields)
    return operation


def message(direction, peer, *, comm=0, state="running", tag=0):
    operation = call(None, "send_recv", comm=comm, state=state, op=None, plan=None, algorithm=None)
    return dict(operation, direction=direction, peer=peer, tag=tag)


def dump(rank, operations, *, world=3, comms=None, failures=(), rails=(), skew_us=0, **fields):
    """A parsed dump; `comms`: {comm: (members, next_op_seq)}, made from the operations if not given."""
    if comms is None:
        numbers = {}
        for each in operations:
            if each["op_seq"] is not None:
                numbers[each["comm"]] = each["op_seq"] + 1
        comms = {comm: (list(range(world)), following) for comm, following in numbers.items()}
        comms.setdefault(0, (list(range(world)), 0))
    shifted = [{name: value + skew_us if name.endswith("_us") and value else value
                for name, value in each.items()} for each in operations]
    content = {"nezha_flight": 1, "job": "j", "rank": rank, "world_size": world, "host": "h",
               "pid": 1, "reason": "error", "written_us": START_US + 10_000_000,
               "rails": ["eth0", "eth1"],
               "communicators": [
                   {"comm": comm, "rank": members.index(rank) if rank in members else 0,
                    "members": members, "next_op_seq": following, "failed": False}
                   for comm, (members, following) in comms.items()],
               "operation_count": len(operations), "operations": shifted,
               "failures": [{"at_us": START_US, "comm": 0, "peer": None, **each} for each in failures],
               "rail_events": [{"at_us": START_US, "lane": 0, **each} for each in rails]}
    content.update(fields)
    return parse(content, f"rank{rank}.json")


def first(dumps):
    return analyse(dumps).findings[0]


def test_nothing_is_wrong():
    report = analyse([dump(rank, [call(i) for i in range(20)]) for rank in range(3)])
    assert report.findings == () and "nothing is wrong" in report.verdict
    assert report.missing == ()


@pytest.mark.parametrize("field, value, usual", [
    ("collective", "barrier", "all_reduce"), ("dtype", "int32", "float32"), ("op", "max", "sum"),
    ("count", 11, 10), ("algorithm", "tree", "ring"), ("plan", 8, 7)])
def test_the_odd_rank_is_named(field, value, usual):
    dumps = [dump(rank, [call(0), call(1, **({field: value} if rank == 1 else {}), state="failed")])
             for rank in range(3)]
    found = first(dumps)
    assert (found.kind, found.ranks, found.comm, found.op_seq) == ("mismatch", (1,), 0, 1)
    assert found.details["field"] == field
    assert found.details["values"] == {"0": usual, "1": value, "2": usual}
    assert "Rank 1 is alone" in found.text and "ranks 0, 2 called" in found.text


def test_two_ranks_that_differ_are_both_named():
    dumps = [dump(rank, [call(0, count=10 + rank, state="failed")], world=2) for rank in range(2)]
    assert first(dumps).ranks == (0, 1)
    assert "majority" in first(dumps).text


def test_only_the_first_disagreement_counts():
    rows = [[call(0), call(1), call(2)], [call(0), call(1, dtype="int8"), call(2, "barrier")],
            [call(0), call(1), call(2)]]
    report = analyse([dump(rank, row) for rank, row in enumerate(rows)])
    assert [finding.kind for finding in report.findings].count("mismatch") == 1
    assert report.findings[0].op_seq == 1


def test_a_left_out_call_is_recognised():
    usual = ["all_reduce", "broadcast", "barrier", "all_gather"]
    rows = [usual, usual, ["all_reduce", "barrier", "all_gather"]]
    dumps = [dump(rank, [call(i, name, state="done" if i == 0 else "failed")
                         for i, name in enumerate(row)]) for rank, row in enumerate(rows)]
    found = first(dumps)
    assert found.ranks == (2,) and found.op_seq == 1
    assert "it left out the broadcast" in found.text


def test_a_call_too_many_is_recognised():
    usual = ["all_reduce", "barrier", "all_gather"]
    rows = [usual, ["all_reduce", "broadcast", "barrier", "all_gather"], usual]
    dumps = [dump(rank, [call(i, name, state="failed") for i, name in enumerate(row)])
             for rank, row in enumerate(rows)]
    assert first(dumps).ranks == (1,) and "one call too many" in first(dumps).text


def test_pairs_of_an_exchange_have_their_own_counts():
    dumps = [dump(rank, [call(0, "all_to_all_v", count=rank, plan=rank)]) for rank in range(3)]
    assert analyse(dumps).findings == ()


def test_the_rank_that_did_not_call():
    stuck = {"state": "running", "waits_for": [2]}
    dumps = [dump(0, [call(0), call(1, **stuck)]), dump(1, [call(0), call(1, **stuck)]),
             dump(2, [call(0)])]
    found = first(dumps)
    assert (found.kind, found.ranks, found.op_seq) == ("missing_call", (2,), 1)
    assert "ranks 0, 1 wait for rank 2" in found.text and "has not called" in found.text
    assert "its last was #0 all_reduce" in found.text


def test_the_end_of_a_chain_is_to_blame_not_its_middle():
    # 0 waits for 1 in communicator 0; 1 is in communicator 5 and waits for 2, who is in no call.
    pair = {0: ([0, 1, 2], 2), 5: ([1, 2], 1)}
    dumps = [dump(0, [call(0), call(1, state="running", waits_for=[1])]),
             dump(1, [call(0), call(0, comm=5, state="running", waits_for=[1])],
                  comms={0: ([0, 1, 2], 1), 5: ([1, 2], 1)}),
             dump(2, [call(0), call(1, state="done")], comms={**pair, 5: ([1, 2], 0)})]
    found = first(dumps)
    assert (found.kind, found.ranks, found.comm) == ("missing_call", (2,), 5)


def test_communicators_used_in_opposite_orders():
    members = [0, 1]
    dumps = [dump(0, [call(0, comm=1, state="running", waits_for=[1])], world=2,
                  comms={1: (members, 1), 2: (members, 0)}),
             dump(1, [call(0, comm=2, state="running", waits_for=[0])], world=2,
                  comms={1: (members, 0), 2: (members, 1)})]
    found = first(dumps)
    assert (found.kind, found.ranks) == ("deadlock", (0, 1))
    assert "communicator 1" in found.text and "communicator 2" in found.text


def test_two_receives_that_wait_for_each_other():
    dumps = [dump(0, [message("receive", 1)], world=2), dump(1, [message("receive", 0)], world=2)]
    assert first(dumps).kind == "deadlock"
    assert "receive of 10 x float32 (from rank 1, tag 0)" in first(dumps).text


def test_all_called_and_the_data_is_missing():
    dumps = [dump(0, [call(0, state="running", waits_for=[1])], world=2,
                  rails=[{"event": "lost", "peer": 1, "rail": 1, "reason": "reset"}]),
             dump(1, [call(0, state="running", waits_for=[0])], world=2)]
    report = analyse(dumps)
    assert [finding.kind for finding in report.findings] == ["data", "rails"]
    assert "eth1 between ranks 0 and 1 (reset)" in report.findings[1].text


def test_a_rank_without_a_dump_for_which_the_others_wait():
    stuck = [call(0), call(1, state="failed", waits_for=[2], code="timed_out")]
    failure = {"code": "timed_out", "text": "rank 0: passed its deadline"}
    report = analyse([dump(0, stuck, failures=[failure]), dump(1, stuck, failures=[failure])])
    assert report.missing == (2,)
    assert (report.findings[0].kind, report.findings[0].ranks) == ("absent", (2,))
    assert "no dump" in report.verdict


def test_a_rank_that_died():
    lost = {"code": "peer_lost", "peer": 2, "text": "rank 0 lost rank 2 in all_reduce #1"}
    stuck = [call(0), call(1, state="failed", waits_for=[2], code="peer_lost")]
    report = analyse([dump(rank, stuck, failures=[lost]) for rank in range(2)])
    assert [finding.kind for finding in report.findings] == ["lost"]
    assert report.findings[0].ranks == (2,)


def test_a_failure_of_its_own_is_told_by_all_and_belongs_to_one():
    failure = {"code": "exhausted", "text": "rank 1: no memory for a buffer of 64 bytes"}
    report = analyse([dump(rank, [call(0, state="failed", waits_for=[1] if rank != 1 else [])],
                           failures=[failure]) for rank in range(3)])
    assert [(finding.kind, finding.ranks) for finding in report.findings] == [("error", (1,))]


def test_ranks_of_a_part_are_global_in_the_verdict():
    # Communicator 9 has the global ranks 3 and 1, in this order: its rank 1 is global rank 1.
    comms = {9: ([3, 1], 1)}
    dumps = [dump(3, [call(0, comm=9, state="running", waits_for=[1])], world=4, comms=comms),
             dump(1, [], world=4, comms={9: ([3, 1], 0)})]
    assert first(dumps).ranks == (1,)


def test_the_straggler_on_clocks_that_differ():
    # Rank 2 comes 600 us after the others; all end together. Rank 1's clock is an hour ahead.
    def row(late):
        return [call(i, at=1000 * i + late, took=700 - late) for i in range(50)]

    dumps = [dump(0, row(0)), dump(1, row(0), skew_us=3_600_000_000), dump(2, row(600))]
    found = first(dumps)
    assert (found.kind, found.ranks) == ("straggler", (2,))
    assert found.details["waited_s"] == pytest.approx(0.03, rel=0.05)


def test_a_missing_dump_alone_is_said():
    report = analyse([dump(rank, [call(0)]) for rank in range(2)])
    assert [finding.kind for finding in report.findings] == ["no_dump"]


def test_operations_that_were_forgotten_are_no_missing_calls():
    # Rank 0 remembers the newest only.
    dumps = [dump(0, [call(i) for i in range(90, 100)], world=2),
             dump(1, [call(i) for i in range(100)], world=2)]
    assert analyse(dumps).findings == ()


def test_the_newest_run_is_chosen():
    old = dump(0, [call(0)], job="old", written_us=START_US)
    older = dump(1, [], written_us=START_US)
    new = [dump(0, [call(0)]), dump(1, [call(0)])]
    chosen, left_out = choose_run([old, older, *new])
    assert chosen == new and len(left_out) == 2
    assert "another run" in " ".join(left_out) and "older dump" in " ".join(left_out)


@pytest.mark.parametrize("content, words", [
    ("", "Expecting value"), ("[]", "no object"), ("{}", "no flight dump"),
    ('{"nezha_flight": 2}', "format 1"),
    ('{"nezha_flight": 1, "rank": 5, "world_size": 2}', "rank 5 of 2"),
    ('{"nezha_flight": 1, "rank": 0, "world_size": 2, "job": 3}', "'job'"),
    ("[" * 100_000, ""), ("\xff\xfe", "")])
def test_files_that_are_no_dumps(tmp_path, content, words):
    path = tmp_path / "a.json"
    path.write_bytes(content.encode("latin-1"))
    dumps, problems = read_files([str(path), str(tmp_path / "missing.json")])
    assert dumps == [] and len(problems) == 2
    assert words in problems[0] and "a.json" in problems[0] and "missing.json" in problems[1]


def test_a_folder_without_dumps(tmp_path):
    assert "no .json files" in read_files([str(tmp_path)])[1][0]


@pytest.mark.parametrize("name", ["operations", "communicators", "failures", "rail_events"])
def test_every_part_is_checked(name):
    content = {"nezha_flight": 1, "job": "j", "rank": 0, "world_size": 1, "host": "h", "pid": 1,
               "reason": "call", "written_us": 1, "rails": [], "communicators": [], "operations": [],
               "failures": [], "rail_events": []}
    assert parse(json.loads(json.dumps(content))).rank == 0
    for broken in ({}, [3], [{}]):
        with pytest.raises(DumpError, match=name):
            parse({**content, name: broken})
