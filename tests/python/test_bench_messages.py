"""`nezha bench messages`: its traffic, what it refuses, its numbers and its report."""

import numpy as np
import pytest

from nezha_tools.cli.errors import BenchError
from nezha_tools.bench import messages_command
from nezha_tools.bench.message_run import Request
from nezha_tools.bench.message_spec import POLICIES, MessageSpec, Record
from nezha_tools.bench.message_traffic import PATTERN, Sent, contents, draw
from nezha_tools.bench.message_worker import summary
from nezha_tools.bench.messages_command import _loads

LIMIT = 10e6


def spec(**values):
    return MessageSpec(**{"policy": "pull", "means": [16384], "loads": [0.5], "limit": LIMIT,
                          "seconds": 10.0, "seed": 1, **values})


# ---- traffic

@pytest.mark.parametrize("mean, load", [(4096, 0.2), (65536, 0.95)])
def test_the_traffic_makes_the_load(mean, load):
    traffic = draw(4, mean, load, LIMIT, 60.0, seed=3)
    assert len(traffic) == 4
    for rank, sent in enumerate(traffic):
        assert len(sent.at_s) == len(sent.sizes) == len(sent.receivers)
        assert (np.diff(sent.at_s) >= 0).all() and sent.at_s[-1] < 60 and sent.sizes.min() >= 1
        assert set(sent.receivers) == set(range(4)) - {rank}
        counts = np.bincount(sent.receivers, minlength=4)[[r for r in range(4) if r != rank]]
        assert counts.min() > 0.8 * counts.max()
    offered = sum(sent.sizes.sum() for sent in traffic) / (60 * LIMIT * 4)
    assert offered == pytest.approx(load, rel=0.05)
    gaps = np.diff(traffic[0].at_s)
    assert gaps.std() == pytest.approx(gaps.mean(), rel=0.1)  # as exponential ones
    assert traffic[0].sizes.std() == pytest.approx(mean, rel=0.1)


def test_every_policy_gets_the_same_messages():
    first, second = (draw(3, 4096, 0.5, LIMIT, 1.0, seed=7) for _ in range(2))
    other = draw(3, 4096, 0.5, LIMIT, 1.0, seed=8)
    for one, two in zip(first, second):
        assert np.array_equal(one.at_s, two.at_s) and np.array_equal(one.sizes, two.sizes)
        assert np.array_equal(one.receivers, two.receivers)
    assert not np.array_equal(first[0].sizes[:20], other[0].sizes[:20])


def test_a_message_that_lands_elsewhere_differs():
    pattern = contents(1000)
    assert len(pattern) == 1000 + PATTERN
    for first in range(PATTERN - 1):
        assert not np.array_equal(pattern[first:first + 4], pattern[first + 1:first + 5])


# ---- numbers

def test_a_run_is_counted_behind_its_warm_up():
    traffic = [Sent(np.array([1.0, 4.0, 9.0]), np.array([7, 100, 10]), np.array([1, 1, 1])),
               Sent(np.array([5.0]), np.array([1000]), np.array([0]))]
    ended = [np.array([3.5, 4.5, 11.0]), np.array([5.25])]  # the first began before, the third ends after
    found = summary(spec(), 16384, 0.5, traffic, ended, late_us=3.0, wrong=0, shares=[0.5, 0.5])
    measured = 0.7 * 10.0 * LIMIT * 2
    assert found.messages == 3
    assert found.offered == pytest.approx((100 + 10 + 1000) / measured)
    assert found.accepted == pytest.approx((7 + 100 + 1000) / measured)
    assert found.mean_us == pytest.approx((0.5 + 2.0 + 0.25) / 3 * 1e6)
    assert found.median_us == pytest.approx(0.5e6)


def test_records_travel(capsys):
    sent = Record("modulo", 4096, 0.5, 10, 0.5, 0.4, 1.0, 2.0, 3.0, 4.0, 0, [0.25, 0.75])
    sent.emit()
    lines = capsys.readouterr().out.encode().splitlines()
    assert Record.parse([b"somebody's log", *lines]) == [sent]


# ---- loads

def test_a_range_of_loads_is_six_of_them():
    assert _loads("0.2..0.95") == [0.2, 0.35, 0.5, 0.65, 0.8, 0.95]
    assert _loads("0.5") == [0.5]


@pytest.mark.parametrize("text", ["x", "", "0.2..", "..0.9", "0.9..0.2", "0.5..0.5", "0.2..0.5..0.9"])
def test_what_is_no_range_is_refused(text):
    with pytest.raises(BenchError, match="a range such as 0.2..0.95"):
        _loads(text)


# ---- refusals

@pytest.mark.parametrize("values, why", [
    ({"policies": ["fair"]}, "--policy fair: one of pull, modulo, round_robin"),
    ({"loads": [0]}, "--load 0: a number above 0"), ({"loads": [0.5, 9]}, "--load 9"),
    ({"means": [4096, 0]}, "--mean: at least a byte"),
    ({"rails": ["20mbit"]}, "one rail, on which all policies are alike"),
    ({"rails": ["20mbit", "agg:20mbit"]}, "aggregation nodes carry no messages"),
    ({"policies": ["static"], "nodes": 7, "rails": ["20mbit"] * 4}, "needs 5 rails for 7 nodes")])
def test_what_cannot_be_run_is_refused(values, why):
    request = {"policies": ["pull"], "means": [4096], "loads": [0.5], **values}
    with pytest.raises(BenchError, match=why):
        Request(**request)


@pytest.mark.parametrize("values, why", [
    ({"means": [64]}, "20000 is what a program in Python keeps up with"),
    ({"means": [64 << 20]}, "fewer than 10 messages")])
def test_what_says_nothing_is_refused(values, why):
    with pytest.raises(BenchError, match=why):
        spec(**values).check()


# ---- report

def row(policy, load, accepted, **values):
    return {"policy": policy, "mean": 4096, "load": load, "messages": 10, "offered": load,
            "accepted": accepted, "mean_us": 100.0, "median_us": 90.0, "p99_us": 300.0, "late_us": 20.0,
            "wrong": 0, "shares": [0.5, 0.5], **values}


def test_the_report():
    document = {"results": [row("pull", 0.9, 0.8), row("pull", 0.2, 0.2), row("modulo", 0.2, 0.2),
                            row("modulo", 0.9, 0.6, late_us=5000.0)]}
    assert [cells[:3] for cells in messages_command.cells(document)] == [
        ["4K", "0.2", "pull"], ["4K", "0.2", "modulo"], ["4K", "0.9", "pull"], ["4K", "0.9", "modulo"]]
    first, late = messages_command.sentences(document)
    assert first == "4K: at load 0.9 pull accepts most, 0.800 of 0.900 offered"
    assert "LATE" in late and "modulo 4K 0.9" in late and "pull" not in late


def test_the_policies_are_the_librarys():
    import nezha

    with pytest.raises(nezha.InvalidArgument) as refused:
        nezha.init(0, 2, "hash://bench-messages", config={"message_policy": "fair"})
    assert "choose one of " + ", ".join(POLICIES) in str(refused.value)
