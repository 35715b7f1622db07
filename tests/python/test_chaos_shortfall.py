"""Chaos without a lab: the undisturbed throughput, and the seconds below what was possible."""

import pytest

from nezha_tools.chaos.baseline import PATIENCE_S, least_bps, measure, steady_since
from nezha_tools.chaos.faults import Injection
from nezha_tools.chaos.shortfall import Course, Lasting, judge
from nezha_tools.chaos.throughput import Timeline

MBIT = 1_000_000
RATES = [200 * MBIT, 100 * MBIT]
LEAST = least_bps(RATES, 1)


def line(*phases, sampled_s=0.05):
    """One node, two rails, 2 : 1. phases: (until second, Mbit/s of both rails, or a function of time)."""
    timeline, moved, step, start = Timeline(2), 0.0, 0, 0.0
    timeline.add(0.0, [0, 0])
    for until, rate in phases:
        while start + sampled_s / 2 < until:
            step += 1
            start = step * sampled_s
            mbits = rate(start) if callable(rate) else rate
            moved += mbits * MBIT / 8 * sampled_s
            timeline.add(start, [round(2 * moved / 3), round(moved / 3)])
    return timeline


def bursts(period_s, busy_s, mbits):
    """A program that computes and then sends for busy_s of every period_s."""
    return lambda at: mbits if (at - 1e-9) % period_s >= period_s - busy_s else 0.0


# ---- the undisturbed throughput ------------------------------------------------------------


def test_start_up_is_no_measure():
    assert steady_since(line((4.9, 280)), 0.0, LEAST) is None  # not yet long enough
    assert steady_since(line((5.1, 280)), 0.0, LEAST) == pytest.approx(2.6)
    # Three slow seconds at first: the rate of the rest is what is found.
    timeline = line((3.0, 90), (6.0, 280))
    assert steady_since(timeline, 0.0, LEAST) is None
    timeline = line((3.0, 90), (8.2, 280))
    since = steady_since(timeline, 0.0, LEAST)
    assert sum(timeline.mean_bps([(since, 8.2)])) == pytest.approx(280 * MBIT, rel=1e-3)


def test_heartbeats_are_no_work():
    """They are as steady as anything, and a hundredth of a percent of what comes later."""
    assert steady_since(line((25.0, 0.05)), 0.0, LEAST) is None
    assert steady_since(line((20.0, 0.05), (25.2, 280)), 0.0, LEAST) == pytest.approx(22.7, abs=0.06)
    assert least_bps([0, 10 ** 9], 4) == 4e6 and least_bps([MBIT, MBIT], 2) == pytest.approx(4e4)


@pytest.mark.parametrize("period_s, steady_at_s", [(0.5, 5.0), (1.0, 12.0), (2.0, 12.0), (4.0, 24.0)])
def test_a_program_that_computes_between_is_measured_over_longer(period_s, steady_at_s):
    rate = bursts(period_s, period_s / 5, 280)
    for end in range(2, int(2 * steady_at_s)):
        assert steady_since(line((end / 2, rate)), 0.0, LEAST) is None, end / 2
    timeline = line((steady_at_s + 0.05, rate))
    since = steady_since(timeline, 0.0, LEAST)
    assert sum(timeline.mean_bps([(since, timeline.end_s)])) == pytest.approx(56 * MBIT, rel=0.05)


def test_what_never_keeps_step_is_never_steady():
    assert steady_since(line((30.0, bursts(7.0, 1.0, 280))), 0.0, LEAST) is None


def test_what_was_not_measured_has_a_reason_and_no_number():
    timeline = line((40.0, 280))
    assert measure(timeline, (2.0, 10.0), [], 40.0).total_bps == pytest.approx(280 * MBIT, rel=1e-3)
    for baseline, words in (
            (measure(timeline, None, [], 3.0), "ended 3.0 s after its first traffic"),
            (measure(timeline, None, [], PATIENCE_S + 1), "not steady in the 30 s"),
            (measure(timeline, (41.0, 50.0), [], 40.0), "began at once")):
        assert baseline.rails_bps is None and baseline.total_bps == 0 and words in baseline.missing


def test_a_program_that_was_not_yet_at_work_has_no_baseline():
    timeline = line((10.0, 30), (30.0, 280))
    baseline = measure(timeline, (2.0, 9.0), [(12.0, 13.0), (20.0, 30.0)], 30.0)
    assert baseline.rails_bps is None and "9.3 times as much" in baseline.missing
    slower = measure(line((10.0, 280), (30.0, 30)), (2.0, 9.0), [(12.0, 30.0)], 30.0)
    assert slower.missing is None


# ---- seconds below what was possible -------------------------------------------------------


def fault(kind, began_s, ended_s, node=0, rail=0, number=0):
    injection = Injection(number, kind, node, rail, began_s, ended_s - began_s)
    return Lasting(injection, began_s, ended_s)


def judged(timeline, *faults, undisturbed=(2.0, 10.0), until_s=40.0, nodes=1, baseline=280, rates=None):
    return judge(timeline, Course(nodes, RATES if rates is None else rates, baseline * MBIT, undisturbed,
                                  list(faults), until_s))


def seconds(found, name):
    return found[name]["below_s"], found[name]["judged_s"]


def test_seconds_after_a_fault_at_a_third_of_the_rate_are_found():
    found = judged(line((10.0, 280), (11.0, 95), (14.0, 95), (40.0, 280)), fault("cut", 10.0, 11.0))
    assert found["window_s"] == 1.0 and seconds(found, "undisturbed") == (0.0, 8.0)
    assert seconds(found, "calm") == seconds(found, "after_last_fault") == (3.0, 29.0)
    assert seconds(found, "during_faults") == (0.0, 1.0)  # 95 of the other rail's 100
    assert [(w["from_s"], w["to_s"], w["faults"]) for w in found["windows"]] == [
        (11, 12, []), (12, 13, []), (13, 14, [])]
    assert [p["possible_bps"] for p in found["possible"]] == [280 * MBIT, 100 * MBIT, 280 * MBIT]


def test_only_what_is_after_the_last_fault_counts_as_such():
    found = judged(line((10.0, 280), (14.0, 95), (20.0, 280), (21.0, 150), (22.0, 150), (40.0, 280)),
                   fault("cut", 10.0, 11.0), fault("slow", 20.0, 21.0, rail=1, number=1))
    assert seconds(found, "calm") == (4.0, 28.0)
    assert seconds(found, "after_last_fault") == (1.0, 19.0)
    assert seconds(found, "during_faults") == (1.0, 2.0)  # 150 of 200 + 10
    assert found["windows"][-2]["faults"] == [1] and found["windows"][-2]["possible_bps"] == 210 * MBIT


@pytest.mark.parametrize("kinds, possible", [
    (["cut"], 100), (["oneway-in"], 100), (["slow"], 120), (["crawl"], 102), (["delay"], 100),
])
def test_what_the_rails_could_still_carry(kinds, possible):
    found = judged(line((40.0, 280)), *(fault(kind, 10.0, 12.0) for kind in kinds))
    assert found["possible"][1]["possible_bps"] == possible * MBIT


def test_the_worst_hit_node_and_the_program_itself_are_limits():
    timeline = line((40.0, 280))
    both = (fault("cut", 10.0, 12.0, node=0, rail=0), fault("cut", 10.0, 12.0, node=1, rail=1, number=1))
    assert judged(timeline, *both, nodes=2, baseline=140)["possible"][1]["possible_bps"] == 100 * MBIT
    # A program that never needs more than 60 Mbit/s could go on as before over the rest.
    calmer = judged(line((40.0, 60)), fault("cut", 10.0, 12.0), baseline=60)
    assert calmer["possible"][1]["possible_bps"] == 60 * MBIT
    assert seconds(calmer, "during_faults") == (0.0, 2.0)


def test_of_stopped_and_killed_ranks_nothing_is_said():
    timeline = line((10.0, 280), (40.0, 0))
    paused = judged(timeline, fault("pause", 10.0, 15.0, rail=None))
    assert seconds(paused, "during_faults") == (0.0, 0.0) and seconds(paused, "calm") == (25.0, 25.0)
    killed = judged(timeline, fault("kill", 10.0, 10.0, rail=None))
    assert seconds(killed, "calm") == seconds(killed, "after_last_fault") == (0.0, 0.0)
    unlimited = judged(timeline, fault("cut", 10.0, 15.0), rates=[0, 0])
    assert seconds(unlimited, "during_faults") == (0.0, 0.0)


def test_a_gap_shorter_than_a_window_is_not_judged():
    found = judged(line((40.0, 280)), fault("cut", 10.0, 11.0), fault("cut", 11.9, 13.0, number=1),
                   fault("cut", 14.6, 15.0, number=2), until_s=18.0)
    assert found["calm"]["judged_s"] == pytest.approx(1.6 + 3.0)


def test_a_program_that_computes_between_is_judged_in_longer_windows():
    """0.5 s of every second or two: each second alone says nothing."""
    found = judged(line((40.0, bursts(2.0, 0.5, 280))), fault("cut", 10.0, 11.0), baseline=70)
    assert found["window_s"] == 2.0 and found["calm"]["below_s"] == 0.0
    assert seconds(judged(line((10.0, bursts(2.0, 0.5, 280)), (20.0, 20), (40.0, bursts(2.0, 0.5, 280))),
                          fault("cut", 10.0, 11.0), baseline=70), "calm")[0] >= 8.0
    assert judged(line((40.0, bursts(8.0, 1.0, 280))), baseline=35, undisturbed=(2.0, 26.0)) is None


def test_without_faults_there_is_nothing_to_find():
    found = judged(line((40.0, 280)), undisturbed=(2.0, 40.0))
    assert found["windows"] == [] and seconds(found, "calm") == (0.0, 0.0)
