"""`nezha plan algorithm`: the library's costs, where they cross, and the division among rails."""

import json

import pytest

from nezha_study.plan import algorithms as plan
from nezha_tools.cli.errors import PlanError
from nezha_study.plan.interference_file import read_interference
from nezha_study.plan.library import compare, divide

ONE = [(125e6, 30e-6)]
UNEQUAL = [(3.125e9, 20e-6), (1.25e9, 50e-6)]


def test_the_ring_costs_what_its_formula_says():
    size, ranks, rate, alpha, adds = 1 << 26, 8, 1e9, 10e-6, 4e9
    ring = compare("all_reduce", size, ranks, rate, alpha, reduce_rate=adds).of("ring")
    assert ring.latency_s == pytest.approx(14 * alpha)
    assert ring.transfer_s == pytest.approx(1.75 * size / rate)
    assert ring.reduce_s == pytest.approx(0.875 * size / adds)
    assert ring.total_s == pytest.approx(ring.latency_s + ring.transfer_s + ring.reduce_s)
    doubling = compare("all_reduce", size, ranks, rate, alpha,
                       reduce_rate=adds).of("recursive_doubling")
    assert (doubling.messages, doubling.bytes_factor) == (3, 3)


def test_every_algorithm_of_the_catalog_is_there_and_says_why_it_is_left_out():
    found = {
        cost.algorithm: cost.left_out
        for cost in compare("all_reduce", 1 << 20, 6, 1e9, 1e-5).costs
    }
    assert set(found) == {"ring", "recursive_doubling", "halving_doubling", "bcube"}
    assert "bits" in found["bcube"] and not found["ring"]
    gathers = {
        cost.algorithm: cost.left_out
        for cost in compare("all_gather", 1 << 20, 6, 1e9, 1e-5).costs
    }
    assert "runs of blocks" in gathers["bruck"] and not gathers["ring"]


def test_the_choice_is_the_cheapest_of_what_may_be_chosen():
    for size in (4, 1 << 10, 1 << 16, 1 << 22, 1 << 28):
        comparison = compare("all_reduce", size, 6, 1e9, 2e-5)
        allowed = [cost for cost in comparison.costs if not cost.left_out]
        assert comparison.best.total_s == min(cost.total_s for cost in allowed)


def test_crossings_are_where_the_choice_changes():
    question = plan.Question("all_reduce", 8, UNEQUAL)
    found = plan.crossings(question, 4, 1 << 26)
    assert [each.size for each in found] == sorted(each.size for each in found)
    assert {each.what for each in found} == {"algorithm", "cheapest", "rails"}
    for each in found:
        label = {"algorithm": lambda at: at.chosen, "cheapest": lambda at: at.cheapest,
                 "rails": lambda at: plan.rails_text(at.division)}[each.what]
        assert label(plan.answer(question, each.size)) == each.after
        assert label(plan.answer(question, int(each.size / 1.02))) == each.before


def test_short_operations_use_one_rail_and_long_ones_both():
    question = plan.Question("all_reduce", 8, UNEQUAL)
    short, long = plan.answer(question, 1 << 10), plan.answer(question, 1 << 26)
    assert short.division.used == [0] and long.division.used == [0, 1]
    assert short.split_s == 0 and long.split_s == long.division.split_cost_s > 0
    assert plan.together(question, [0]) == UNEQUAL[0]
    rate, latency_s = plan.together(question, [0, 1])
    assert rate == 4.375e9 and latency_s == pytest.approx((3.125 * 20e-6 + 1.25 * 50e-6) / 4.375)
    assert plan.row(short)["shares"] == [1, 0]
    assert plan.row(long)["shares"] == pytest.approx([0.714, 0.286], abs=2e-3)


def test_two_rails_as_one_are_what_water_filling_gives():
    question = plan.Question("all_reduce", 2, UNEQUAL)
    size = 1 << 24
    rate, latency_s = plan.together(question, [0, 1])
    assert latency_s + size / rate == pytest.approx(divide(size, UNEQUAL, 0.0).time_s)


def test_the_library_chooses_with_its_own_latency():
    # With 2 us a message the ring would pay from smaller sizes on than with the library's 30 us.
    question = plan.Question("all_reduce", 4, [(3.125e9, 2e-6)])
    different = [
        at for at in (plan.answer(question, 1 << power) for power in range(10, 26)) if at.lost > 0
    ]
    assert different and all(at.chosen != at.cheapest for at in different)
    same = plan.Question("all_reduce", 4, [(3.125e9, 30e-6)])
    assert all(plan.answer(same, 1 << power).lost == 0 for power in range(2, 26))


def test_interference_takes_a_rail_out():
    rails = [(10e9, 50e-6), (2e9, 50e-6)]  # five times slower
    assert plan.answer(plan.Question("all_reduce", 4, rails), 1 << 28).division.used == [0, 1]
    lost = [[0, 0.27], [0.05, 0]]
    assert plan.answer(plan.Question("all_reduce", 4, rails, 0.0, lost), 1 << 28).division.used == [0]
    near = plan.Question("all_reduce", 4, [(10e9, 50e-6), (8e9, 50e-6)], 0.0, lost)
    assert plan.answer(near, 1 << 28).division.used == [0, 1]
    assert plan.together(near, [0, 1])[0] == pytest.approx(10e9 * 0.73 + 8e9 * 0.95)


def test_the_file_of_the_interference_bench(tmp_path):
    path = tmp_path / "interference.json"
    good = {
        "version": 1, "rails": ["a", "b"], "split_cost_s": 2e-5, "rate_lost": [[0, 0.27], [0.05, 0]]
    }
    path.write_text(json.dumps(good))
    assert read_interference(path, 2) == (2e-5, [[0, 0.27], [0.05, 0]])
    with pytest.raises(PlanError, match="is of 2 rails, and 3 are given"):
        read_interference(path, 3)
    for spoiled in ({**good, "split_cost_s": -1}, {**good, "rate_lost": [[0, 1], [0, 0]]},
                    {**good, "rate_lost": []}):
        path.write_text(json.dumps(spoiled))
        with pytest.raises(PlanError, match="rate_lost a matrix"):
            read_interference(path, 2)
    path.write_text("[]")
    with pytest.raises(PlanError, match="is no file of nezha bench interference"):
        read_interference(path, 2)


@pytest.mark.parametrize("make, words", [
    (lambda: plan.Question("all_reduce", 0, ONE), "nodes 0: it must be a whole number from 2 to 16384"),
    (lambda: plan.answer(plan.Question("gossip", 4, ONE), 4), "collective 'gossip' does not exist"),
    (lambda: divide(4, []), "1 to 16"),
    (lambda: divide(4, [(-1, 0.0)]), "must be above 0"),
    (lambda: divide(4, ONE, -1.0), "split_cost_us must be 0 or more"),
    (lambda: divide(4, ONE * 2, 0.0, [[0, 1], [0, 0]]), r"rate_lost\[0\]\[1\] must be from 0 to "
                                                        r"less than 1"),
    (lambda: divide(4, ONE * 2, 0.0, [[0.5, 0], [0, 0]]), "a rail does not disturb itself"),
])
def test_questions_that_make_no_sense(make, words):
    with pytest.raises(PlanError, match=words):
        make()
