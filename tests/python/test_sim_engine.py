"""The engine: closed forms, what repeats, rails that differ and die, and the shipped binder."""

import numpy as np
import pytest

from nezha_tools.cli.errors import PlanError
from nezha_study.plan.library import ask
from nezha_study.sim import cluster, forms
from nezha_study.sim.cluster import FRAME_BYTES, Change, Tree
from nezha_study.sim.operation import Question, simulate

ONE = [(1e9, 10e-6)]
TWO = [(1e9, 20e-6), (5e8, 30e-6)]


def run(hosts, question, **options):
    return simulate(hosts, question, **options).outcome


def test_a_message_takes_its_latency_and_its_bytes():
    took = run(cluster.uniform(2, ONE), Question("broadcast", 4000, "tree"))
    # And as long again for the sender to hear that it has arrived.
    assert took.total_s == pytest.approx((4000 + FRAME_BYTES) / 1e9 + 2 * 10e-6)


def test_a_ring_takes_what_its_formula_says():
    ranks, size = 8, 8 * 4096
    outcome = run(cluster.uniform(ranks, ONE, adds=4e9), Question("all_reduce", size, "ring"))
    piece = size / ranks
    step = (piece + FRAME_BYTES) / 1e9 + 10e-6
    assert outcome.total_s == pytest.approx(14 * step + 7 * piece / 4e9 + 10e-6)
    assert outcome.sent.sum() == pytest.approx(2 * (ranks - 1) * size)


def test_short_messages_pay_the_latency_and_long_ones_the_rate():
    slow = cluster.uniform(4, [(1e9, 10e-6)])
    fast = cluster.uniform(4, [(2e9, 10e-6)])
    long = Question("all_reduce", 64 << 20, "ring")
    short = Question("all_reduce", 64, "recursive_doubling")
    assert run(slow, long).total_s / run(fast, long).total_s == pytest.approx(2, rel=0.01)
    assert run(slow, short).total_s / run(fast, short).total_s == pytest.approx(1, rel=0.01)


@pytest.mark.parametrize("gap_s", [0, 0.5e-6])
@pytest.mark.parametrize("rails", [ONE, TWO, [(6.25e9, 5e-6)] * 8])
@pytest.mark.parametrize("collective, algorithm", forms.known())
def test_what_is_multiplied_is_what_running_all_gives(collective, algorithm, rails, gap_s):
    hosts = cluster.uniform(64, rails, gap_s=gap_s)
    for size in (64 << 12, 4 << 20):
        question = Question(collective, 0 if collective == "barrier" else size, algorithm)
        quick, whole = run(hosts, question), run(hosts, question, multiply=False)
        assert quick.total_s == pytest.approx(whole.total_s, rel=1e-9)
        assert np.allclose(quick.sent, whole.sent) and np.allclose(quick.busy_s, whole.busy_s)
        assert np.allclose(quick.done_s, whole.done_s, rtol=1e-9)
    if algorithm in ("ring", "pairwise"):
        assert quick.waves_run < quick.waves // 2  # or nothing was multiplied


@pytest.mark.parametrize("collective", ["broadcast", "reduce"])
def test_a_long_chain_is_multiplied_alike(collective):
    hosts = cluster.uniform(1100, TWO, gap_s=1e-6)
    question = Question(collective, 1 << 20, "chain")
    quick, whole = run(hosts, question), run(hosts, question, multiply=False)
    assert quick.waves_run < whole.waves_run / 2
    assert quick.total_s == pytest.approx(whole.total_s, rel=1e-6)


def test_hosts_that_differ_are_not_multiplied():
    hosts = cluster.uniform(64, ONE)
    cluster.slow_host(hosts, 5, 0.5)
    outcome = run(hosts, Question("all_reduce", 4 << 20, "ring"))
    assert outcome.waves_run == outcome.waves
    alike = run(cluster.uniform(64, ONE), Question("all_reduce", 4 << 20, "ring"))
    assert outcome.total_s == pytest.approx(2 * alike.total_s, rel=0.1)


def test_two_rails_share_the_bytes_by_their_rates():
    outcome = run(cluster.uniform(4, TWO), Question("all_reduce", 256 << 20, "ring"))
    part = outcome.sent[:, 0].sum() / outcome.sent.sum()
    assert part == pytest.approx(2 / 3, rel=0.01)
    alone = run(cluster.uniform(4, TWO[:1]), Question("all_reduce", 256 << 20, "ring"))
    assert alone.total_s / outcome.total_s == pytest.approx(1.5, rel=0.02)


def test_rails_that_disturb_each_other_lose_what_was_measured():
    disturbed = cluster.uniform(4, ONE * 2, rate_lost=[[0, 0.2], [0.2, 0]])
    question = Question("all_reduce", 64 << 20, "ring")
    ratio = run(disturbed, question).total_s / run(cluster.uniform(4, ONE * 2), question).total_s
    assert ratio == pytest.approx(1 / 0.8, rel=0.01)


def test_a_rail_that_dies_hands_its_messages_to_the_other():
    question = Question("all_reduce", 64 << 20, "ring")
    whole = run(cluster.uniform(4, ONE * 2), question)
    hosts = cluster.uniform(4, ONE * 2)
    hosts.detect_s = 0.005
    cluster.change(hosts, Change(whole.total_s / 2, 1, 0.0))
    broken = run(hosts, question, record=True)
    one = run(cluster.uniform(4, ONE), question)
    assert whole.total_s + 0.005 < broken.total_s < one.total_s
    assert broken.sent.sum() == pytest.approx(whole.sent.sum())
    late = [each for each in broken.transfers if each.rail == 1 and each.end_s > whole.total_s / 2]
    assert not late


def test_a_rail_that_slows_costs_as_much_as_it_loses():
    question = Question("all_reduce", 64 << 20, "ring")
    whole = run(cluster.uniform(4, ONE), question)
    hosts = cluster.uniform(4, ONE)
    cluster.change(hosts, Change(whole.total_s / 2, 0, 0.5))
    assert run(hosts, question).total_s == pytest.approx(1.5 * whole.total_s, rel=0.02)


def test_uplinks_that_are_oversubscribed_slow_what_crosses_them():
    question = Question("all_to_all", 64 << 20, "pairwise")
    times = []
    for over in (1.0, 4.0):
        hosts = cluster.uniform(16, ONE)
        hosts.tree = Tree(4, over)
        times.append(run(hosts, question).total_s)
    assert 2 < times[1] / times[0] <= 4
    inside = cluster.uniform(4, ONE)
    inside.tree = Tree(4, 4.0)
    assert run(inside, question).total_s == pytest.approx(run(cluster.uniform(4, ONE), question).total_s)


def test_a_bucket_lets_the_first_bytes_through_at_once():
    question = Question("broadcast", 4000, "tree")
    hosts = cluster.uniform(2, ONE, burst_bytes=[1e6])
    assert run(hosts, question).total_s == pytest.approx(2 * 10e-6)


def test_messages_go_where_the_shipped_binder_sends_them():
    """A scatter hands one host's messages to its rails one after the other: each goes where the binder
    would send it, by what the rails still have to do."""
    rails = [(1e9, 20e-6), (4e8, 5e-6), (2e8, 200e-6)]
    hosts = cluster.uniform(40, rails)
    outcome = run(hosts, Question("scatter", 40 << 16, "direct"), record=True)
    first = [each for each in outcome.transfers if each.begin_s < 1e-3][:30]
    free = [0.0] * 3
    seen = set()
    for each in first:
        backlog = [round(free[rail] * rate) for rail, (rate, _) in enumerate(rails)]
        asked = ask("bind", {"bytes": int(each.size) + FRAME_BYTES, "rails": [
            {"rate_gbps": rate * 8 / 1e9, "latency_us": late * 1e6, "backlog_bytes": left}
            for (rate, late), left in zip(rails, backlog)]})
        assert asked["rail"] == each.rail
        free[each.rail] = each.end_s
        seen.add(each.rail)
    assert len(seen) > 1


def test_twenty_thousand_hosts_take_seconds():
    """Counted, not timed: of 20,000 hosts with 8 rails only waves that differ are run."""
    hosts = cluster.uniform(20000, [(6.25e9, 5e-6)] * 8, gap_s=0.5e-6)
    for collective, algorithm in (("all_reduce", "ring"), ("all_gather", "direct"),
                                  ("all_to_all", "pairwise")):
        outcome = run(hosts, Question(collective, 4 << 20, algorithm))
        assert outcome.waves >= 19999 and outcome.waves_run < 200
        assert np.isfinite(outcome.total_s) and outcome.total_s > 0


def failing(*rails_and_hosts):
    made = cluster.uniform(4, TWO)
    for rail, host in rails_and_hosts:
        cluster.change(made, Change(1e-3, rail, 0.0, host))


@pytest.mark.parametrize("make, words", [
    (lambda: cluster.uniform(0, ONE), "nodes 0"),
    (lambda: cluster.uniform(4, [(-1.0, 0.0)]), "rate -1.0"),
    (lambda: cluster.uniform(4, [(1.0, -1.0)]), "latency -1.0"),
    (lambda: cluster.slow_host(cluster.uniform(4, ONE), 4, 0.5), "host 4"),
    (lambda: cluster.slow_host(cluster.uniform(4, ONE), 1, 0.0), "factor 0.0"),
    (lambda: cluster.change(cluster.uniform(4, ONE), Change(0.0, 0, 0.0)), "every rail fails; any two"),
    (lambda: failing((0, 2), (1, 3)), "every rail fails on host 2 or 3"),
    (lambda: failing((0, 2), (1, None)), "every rail fails on host 2;"),
    (lambda: failing((1, None), (0, 2)), "every rail fails on host 2;"),
    (lambda: cluster.vary(cluster.uniform(4, ONE), 0.1, -1), "seed -1"),
    (lambda: simulate(cluster.uniform(4, ONE), Question("all_reduce", -1)), "size -1"),
    (lambda: simulate(cluster.uniform(4, ONE), Question("all_reduce", 4, root=4)), "root 4"),
    (lambda: simulate(cluster.uniform(65, ONE), Question("all_reduce", 4), record=True), "ranks 65"),
])
def test_what_makes_no_sense_gets_a_sentence(make, words):
    with pytest.raises(PlanError, match=words):
        make()
