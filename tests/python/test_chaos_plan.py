"""Chaos without a lab: the schedule, the verdicts, the timeline, the report, the command's refusals."""

import itertools
import json

import pytest
from typer.testing import CliRunner

from nezha_tools import commands
from nezha_tools.chaos import command as chaos_command
from nezha import _final_stats
from nezha_tools.cli.errors import BenchError
from nezha_tools.chaos import fault_figure, report, confirmation
from nezha_tools.cli.errors import ChaosError
from nezha_tools.chaos.faults import Injection, Plan, Schedule, parse_faults, parse_seconds
from nezha_tools.chaos.nemesis import Happening
from nezha_tools.chaos.experiment import Request, Run, _read_counts
from nezha_tools.chaos.throughput import Timeline, outside
from nezha.launcher import Outcome

# (kind, node, rail, seconds, hertz)
_KNOWN = [("flap", 2, 0, 2.32, 1.8), ("cut", 0, 1, 4.07, 0.0), ("flap", 3, 0, 6.338, 1.1),
          ("cut", 1, 1, 8.047, 0.0)]
_ALL = ["cut", "blackhole", "oneway", "reset", "slow", "crawl", "flap", "pause", "kill"]


def plan(faults=("cut",), nodes=4, rails=2, seed=1, every_s=2.0, lasting_s=1.0, **rest):
    return Plan(list(faults), [list(range(rails))] * nodes, every_s, lasting_s, seed, **rest)


def first(count, a_plan):
    return list(itertools.islice(Schedule(a_plan), count))


# ---- the schedule --------------------------------------------------------------------------


def test_a_seed_decides_everything():
    again = [first(200, plan(_ALL[:-1], seed=7)) for _ in range(2)]
    assert again[0] == again[1]
    assert again[0] != first(200, plan(_ALL[:-1], seed=8))
    schedule = Schedule(plan(_ALL[:-1], seed=7))
    assert list(itertools.islice(schedule, 9)) == list(itertools.islice(schedule, 9))


def test_this_seed_is_this_schedule():
    """Reports of today must replay tomorrow."""
    found = [(i.kind, i.node, i.rail, i.at_s, i.hertz) for i in first(4, plan(["cut", "flap"], seed=42))]
    assert found == _KNOWN, found


def test_times_and_lengths():
    found = first(100, plan(["cut", "reset", "flap", "pause"], every_s=3.0, lasting_s=0.5))
    assert [i.number for i in found] == list(range(100))
    for slot, each in enumerate(found, 1):
        assert 3.0 * slot <= each.at_s <= 3.0 * slot + 0.75
        assert each.lasts_s == (0.0 if each.kind == "reset" else 0.5)
        assert (1.0 <= each.hertz <= 10.0) == (each.kind == "flap")
        assert (each.rail is None) == (each.kind == "pause")


def test_every_kind_comes_before_any_comes_again():
    kinds = [each.kind for each in first(60, plan(_ALL[:-1], seed=3))]
    wanted = {"cut", "blackhole", "oneway-out", "oneway-in", "reset", "slow", "crawl", "flap", "pause"}
    for start in range(0, 54, 9):
        assert set(kinds[start:start + 9]) == wanted
    assert {each.node for each in first(60, plan())} == {0, 1, 2, 3}


def reach(each_plan, down, a, b):
    return any((a, rail) not in down and (b, rail) not in down for rail in each_plan.ports[a]
               if rail in each_plan.ports[b])


@pytest.mark.parametrize("nodes, rails", [(2, 2), (3, 2), (4, 3)])
@pytest.mark.parametrize("seed", range(5))
def test_no_two_nodes_lose_their_last_rail(nodes, rails, seed):
    kinds = ["cut", "blackhole", "oneway", "flap", "slow", "pause"]
    a_plan = plan(kinds, nodes, rails, seed, every_s=0.5, lasting_s=3.0)
    found = first(300, a_plan)
    overlaps = 0
    for now in found:
        lasting = [i for i in found if i.at_s <= now.at_s < i.end_s]
        overlaps += len(lasting) > 1
        hit = [(i.node, i.rail) for i in lasting]
        assert len(hit) == len(set(hit)), "one port has two faults at once"
        down = {(i.node, i.rail) for i in lasting if i.rail is not None and i.kind != "slow"}
        assert all(reach(a_plan, down, a, b) for a in range(nodes) for b in range(a))
    assert overlaps > 100


def test_all_rails_may_go_when_allowed():
    found = first(300, plan(["cut"], 2, 2, every_s=0.5, lasting_s=3.0, allow_all_down=True))
    assert any(len({i.rail for i in found if i.node == 0 and i.at_s <= t < i.end_s}) == 2
               for t in (each.at_s for each in found))


def test_one_rank_stays_alive_and_the_dead_are_left_alone():
    found = list(Schedule(plan(["kill"], 4)))
    assert len(found) == 3 and len({each.node for each in found}) == 3
    dead = set()
    for each in first(100, plan(["kill", "cut", "pause"], 3)):
        assert each.node not in dead
        dead |= {each.node} if each.kind == "kill" else set()
    assert len(dead) == 2


def test_limits_of_where_and_how_many():
    found = list(Schedule(plan(["cut", "pause"], count=30, only_nodes=[1, 2], only_rails=[1])))
    assert len(found) == 30
    assert {each.node for each in found} == {1, 2} and {each.rail for each in found} == {1, None}


@pytest.mark.parametrize("a_plan, words", [
    (plan(["cut"], rails=1), "without a rail between them"),
    (plan(["kill"], nodes=1), "only rank"),
    (plan(["cut"], only_rails=[5]), "--only-rails leaves nothing"),
    (plan(["pause"], only_nodes=[9]), "--only-nodes leaves nothing"),
    (plan([]), "no faults"),
])
def test_a_plan_that_cannot_be_is_refused(a_plan, words):
    with pytest.raises(ChaosError, match=words):
        Schedule(a_plan)


def test_one_rail_can_be_slow_but_not_cut():
    assert {each.kind for each in first(9, plan(["slow", "pause"], rails=1))} == {"slow", "pause"}


def test_words_of_the_command_line():
    assert parse_faults("cut, slow,cut") == ["cut", "slow"]
    assert [parse_seconds(t) for t in ("2s", "500ms", "1.5", "2m")] == [2, 0.5, 1.5, 120]
    for text in ("", "2h", "0s", "-1", "nan", "1e9s", "s"):
        with pytest.raises(ChaosError, match="no time"):
            parse_seconds(text)
    with pytest.raises(ChaosError, match="quake is no fault.*blackhole"):
        parse_faults("cut,quake")


# ---- verdicts ------------------------------------------------------------------------------


def port(**changed):
    return {"carrier": 1, "carrier_losses": 1, "delay_ms": 0, "rate_out_bps": 10**9,
            "rate_in_bps": 10**9, "dropped": 0, "queue_drops": 0, "bytes": 0, "resets": 0, **changed}


@pytest.mark.parametrize("kind, during, acts, happened", [
    ("cut", port(carrier=0, carrier_losses=2), 0, True),
    ("cut", port(carrier=1, carrier_losses=2), 0, False),
    ("cut", port(carrier=0), 0, False),
    ("blackhole", port(dropped=3), 0, True),
    ("oneway-in", port(dropped=0), 0, False),
    ("reset", port(resets=2), 2, True),
    ("reset", port(resets=0), 2, False),
    ("reset", port(resets=5), 0, False),
    ("slow", port(rate_out_bps=10**8, rate_in_bps=10**8), 0, True),
    ("slow", port(rate_out_bps=10**8, rate_in_bps=10**9), 0, False),
    ("crawl", port(rate_out_bps=10**7, rate_in_bps=10**7), 0, True),
    ("crawl", port(rate_out_bps=10**8, rate_in_bps=10**8), 0, False),
    ("flap", port(carrier_losses=4), 3, True),
    ("flap", port(carrier_losses=3), 3, False),
    ("flap", port(carrier_losses=1), 0, False),
    ("delay", port(delay_ms=50), 0, True),
    ("delay", port(delay_ms=0), 0, False),
])
def test_the_counters_decide(kind, during, acts, happened):
    said = confirmation.of_port(kind, [port()], [during], acts=acts, delay_ms=50)
    assert said[0] is happened and said[1]


def test_ranks_have_verdicts_too():
    assert confirmation.of_pause(True, 1.0, 0, True)[0]
    assert not confirmation.of_pause(False, 1.0, 0, True)[0]
    assert not confirmation.of_pause(True, 1.0, 3, True)[0]
    assert not confirmation.of_pause(True, 1.0, 0, False)[0]
    assert confirmation.of_kill(True)[0] and not confirmation.of_kill(False)[0]


# ---- the timeline --------------------------------------------------------------------------


def steady(seconds, rate=1000, still=()):
    """Two rails sampled every 0.1 s: `rate` bytes/s and twice that, nothing while `still`."""
    line, sent = Timeline(2), 0.0
    for step in range(int(seconds * 10) + 1):
        time_s = step / 10
        if step and not any(a < time_s <= b for a, b in still):
            sent += rate / 10
        line.add(time_s, [round(sent), round(2 * sent)])
    return line


def test_rates_are_bits_per_second():
    line = steady(10)
    assert line.mean_bps([(2.0, 4.0)]) == pytest.approx([8000, 16000])
    assert line.mean_bps([(2.05, 4.0), (7.0, 7.5)]) == pytest.approx([8000, 16000])
    assert line.mean_bps([(3.0, 3.0)]) is None
    times, rates = line.rates(20)
    assert len(times) <= 20 and all(value == pytest.approx(8000) for value in rates[0])


def test_standstills_are_found_where_they_begin():
    line = steady(20, still=[(3.0, 4.5), (10.0, 10.2)])  # two samples are no standstill
    assert [(round(a, 3), round(b, 3)) for a, b in line.standstills] == [(3.0, 4.5)]
    assert line.longest_standstill([(2.9, 3.1)]) == pytest.approx(1.5)
    assert line.longest_standstill([(3.2, 9.0)]) == 0.0


def test_a_long_run_costs_resolution_but_no_bytes():
    line = steady(12000)
    assert len(line) <= 32000
    assert line.mean_bps([(0.0, 11990.0)]) == pytest.approx([8000, 16000], rel=1e-3)
    assert len(line.rates(600)[0]) <= 600


def test_what_lies_outside():
    assert outside(0, 10, [(2, 3), (2.5, 4), (9, 12)]) == [(0, 2), (4, 9)]
    assert outside(0, 10, []) == [(0, 10)]
    assert outside(0, 10, [(-1, 11)]) == []
    assert outside(5, 10, [(0, 1), (12, 13)]) == [(5, 10)]


# ---- the report ----------------------------------------------------------------------------


def finished(*verdicts, code=0, timeline=None, steady_s=0.1):
    kinds = ["cut", "flap", "pause", "reset", "blackhole"]
    happenings = [
        Happening(Injection(n, kinds[n], 1, None if kinds[n] == "pause" else n % 2, 2.0 + n,
                            0.0 if kinds[n] == "reset" else 0.5, 3.0 if kinds[n] == "flap" else 0.0),
                  2.0 + n, 2.5 + n, happened, "seen")
        for n, happened in enumerate(verdicts)]
    request = Request(["python", "train.py", "a b"], ["cut", "flap"], 11, nodes=2, count=5,
                      only_rails=[1], env={"A": "1"})
    counts = {0: {"operations_begun": 5, "endpoints_lost": 2, "unheard_of": 1, "polls": 9, "dials": 0}}
    return Run(request, Outcome(code, 10.0, None, [code, code]), happenings, timeline or steady(10), 0.1,
               steady_s, 10.0, [10**9, 10**9], counts)


@pytest.mark.parametrize("verdicts, code, wanted", [
    ([True, True], 0, 0), ([True, False], 0, 1), ([True, None], 0, 0), ([None], 0, 1), ([], 0, 1),
    ([True], 7, 7), ([False], 7, 7),
])
def test_the_exit_code(verdicts, code, wanted):
    assert report.document(finished(*verdicts, code=code))["exit_code"] == wanted


def test_the_document_is_json_and_says_how_to_repeat():
    found = json.loads(json.dumps(report.document(finished(True, False))))
    assert found["undisturbed_bps"] == pytest.approx([4000, 8000], rel=0.01)
    assert found["faults"][0]["where"] == "node 1 rail 0"
    assert found["faults"][0]["traffic_during"] == pytest.approx(1.0, rel=0.01)
    lines = report.summary(found)
    assert any("--seed 11" in line and "--only-rails 1" in line and "--env A=1" in line
               and line.endswith("-- python train.py 'a b'") for line in lines)
    assert any(line.startswith("PROBLEM: fault 1 (flap, node 1 rail 1)") for line in lines)


def test_without_a_baseline_there_is_no_percentage_and_a_reason(capsys):
    found = report.document(finished(True, True, steady_s=None))
    assert found["undisturbed_bps"] is None and found["below"] is None
    assert all(fault[key] is None for fault in found["faults"]
               for key in ("traffic_during", "traffic_after"))
    assert len(found["notes"]) == 1 and "no percentages: the program ended 9.9 s" in found["notes"][0]
    report.show(found)
    shown = capsys.readouterr().out
    assert found["notes"][0] in shown and "%" not in shown.replace("percentages", "")
    assert "Before the first fault" not in shown and "below" not in shown


def test_seconds_below_are_in_every_form_of_the_report(capsys):
    # The faults last from 2.0 to 3.5 s; nothing moves from 5 to 8, and nothing after 9.
    found = report.document(finished(True, True, timeline=steady(10, still=[(5.0, 8.0), (9.0, 10.0)])))
    assert found["notes"] == [] and found["below"]["window_s"] == 1.0
    tally = found["below"]["after_last_fault"]
    assert tally == found["below"]["calm"] and 2.9 <= tally["below_s"] <= 4.1
    assert 5.2 <= tally["judged_s"] <= 5.5  # the end of the program's traffic is that of the judgement
    failed = report.document(finished(True, True, code=3, timeline=steady(10, still=[(5.0, 10.0)])))
    assert failed["below"]["calm"]["below_s"] >= 4.9  # what stood still until it failed was below
    report.show(found)
    shown = capsys.readouterr().out
    assert f"no fault active: {tally['below_s']:.1f} of {tally['judged_s']:.1f}" in shown


def test_an_uneven_program_is_not_judged_by_seconds():
    still = [(at, at + 5.0) for at in range(1, 60, 6)]
    run = finished(timeline=steady(60, still=still), steady_s=12.0)
    run.ended_s = 60.0
    found = report.document(run)
    assert found["undisturbed_bps"] and found["below"] is None and "not counted" in found["notes"][0]


def test_a_standstill_belongs_to_the_fault_before_it():
    run = finished(True, True, timeline=steady(10, still=[(2.1, 2.8), (3.6, 4.4)]))
    assert [fault["standstill_s"] for fault in report.document(run)["faults"]] == pytest.approx(
        [0.7, 0.8], abs=0.01)


def test_tables_show_what_was_counted(capsys):
    report.show(report.document(finished(True, None, False)))
    shown = capsys.readouterr().out
    for words in ("yes: seen", "unknown: seen", "NO: seen", "flap 3 Hz", "endpoints", "left none"):
        assert words in shown, shown
    assert "unheard" in shown and "polls" not in shown and "dials" not in shown


def test_the_picture_is_drawn(tmp_path):
    pytest.importorskip("matplotlib")
    path = tmp_path / "new" / "p.png"
    fault_figure.draw(report.document(finished(True, False, None, True, True)), path)
    assert path.read_bytes().startswith(b"\x89PNG") and path.stat().st_size > 20_000
    empty = finished()
    empty.timeline, empty.traffic_s, empty.steady_s = Timeline(2), None, None
    fault_figure.draw(report.document(empty), path)
    (tmp_path / "file").write_text("")
    with pytest.raises(BenchError, match="cannot write"):
        fault_figure.draw(report.document(finished(True)), tmp_path / "file" / "p.png")


# ---- counters of the ranks -----------------------------------------------------------------


class Native:
    rank = 3

    def describe(self, what):
        stats = {"operations_begun": 4, "operations": [], "nested": {}, "on": True}
        return json.dumps(stats) if what == "stats" else ""


def test_ranks_leave_their_counters(tmp_path, monkeypatch):
    monkeypatch.setenv("NEZHA_LAB_STATS", str(tmp_path))
    monkeypatch.setenv("RANK", "3")
    roots = [Native(), Native()]
    for native in roots:
        _final_stats.watch(native)
    for native in [*roots, *roots, Native()]:  # saved once each, and what was split off never
        _final_stats.save(native)
    (tmp_path / "half").write_text("{")
    assert _read_counts(str(tmp_path)) == {3: {"operations_begun": 8}}
    monkeypatch.setenv("NEZHA_LAB_STATS", str(tmp_path / "gone"))
    _final_stats.watch(roots[0])
    _final_stats.save(roots[0])


# ---- the command ---------------------------------------------------------------------------


def chaos(*arguments):
    return CliRunner().invoke(chaos_command.app, arguments, prog_name="nezha chaos")


def test_help_teaches():
    assert "chaos" in commands.app.info.cls.list_commands(None, None)
    shown = chaos("--help").output
    for words in ("--faults", "--seed", "blackhole", "1 to 10 times a second", "nezha chaos --nodes 4"):
        assert words in shown


@pytest.mark.parametrize("arguments, words", [
    (["--faults", "quake"], "quake is no fault"),
    (["--every", "soon"], "'soon' is no time"),
    (["--only-nodes", "a"], "--only-nodes 'a'"),
    (["--env", "=1"], "--env '=1'"),
    (["--rates", "1gbit", "--faults", "cut"], "--allow-all-down"),
])
def test_what_cannot_be_is_refused_in_one_line(arguments, words, capfd):
    done = chaos(*arguments, "--", "true")
    said = done.stderr + capfd.readouterr().err
    assert done.exit_code == 125 and words in said and "Traceback" not in said, said
    assert isinstance(done.exception, SystemExit)
