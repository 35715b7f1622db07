"""The signs of the source's statements about policies that hold in the simulation, and why others do
not: short runs of one seed, which give the same numbers every time. docs/rail_study.md has more."""

from __future__ import annotations

import pytest

from nezha_study.sim.rails.case import Case, Network
from nezha_study.sim.rails.case_runs import measure_all
from nezha_study.sim.rails.findings import KIB, SATURATED

_SEED, _MESSAGES = 1, 20
_POLICIES = ("round_robin", "random", "local_dynamic", "dynamic")
_TURNS = ("round_robin", "random")
_NONE = 5.0  # percent: a smaller difference is none


def accepted(means, policies, load=SATURATED, **values):
    """By policy, what 32 hosts accept."""
    cases = [Case(policy=policy, seed=_SEED, messages=_MESSAGES, hosts=32, means=means, load=load,
                  **values) for policy in policies]
    outcomes = measure_all(cases, lambda _: None)
    return {case.policy: outcomes[case] for case in cases}


def gain(one, other):
    """How much more is accepted, percent."""
    return 100 * (one.accepted / other.accepted - 1)


@pytest.fixture(scope="module")
def large():
    """Messages of 64 KB, saturated."""
    return accepted((64 * KIB,), _POLICIES)


def test_dynamic_is_ahead_of_local_dynamic_and_that_of_round_robin(large):
    assert gain(large["dynamic"], large["local_dynamic"]) > _NONE
    assert gain(large["local_dynamic"], large["round_robin"]) > _NONE


def test_dynamic_gains_with_the_size(large):
    short = accepted((4 * KIB,), ("local_dynamic", "dynamic"))
    assert gain(short["dynamic"], short["local_dynamic"]) < -_NONE
    assert gain(large["dynamic"], large["local_dynamic"]) > _NONE


def test_dynamic_scales_with_the_rails():
    one, eight = (accepted((32 * KIB,), ("dynamic",), rails=rails)["dynamic"] for rails in (1, 8))
    assert eight.rate_gb_s > 6 * one.rate_gb_s


def test_hybrid_is_ahead_of_dynamic_and_quicker_for_short_messages():
    mixed = accepted((2 * KIB, 32 * KIB), ("dynamic", "hybrid"))
    assert gain(mixed["hybrid"], mixed["dynamic"]) > _NONE
    half = accepted((2 * KIB, 32 * KIB), ("local_dynamic", "dynamic", "hybrid"), load=0.5)
    assert half["hybrid"].short_us < min(half["local_dynamic"].short_us, half["dynamic"].short_us)


def test_striping_and_not_meet_where_a_policy_takes_an_idle_rail(large):
    striped = accepted((64 * KIB,), ("local_dynamic", "dynamic"), striped=True)
    assert all(abs(gain(striped[policy], large[policy])) < _NONE for policy in striped)


def test_idle_rails_are_why_random_loses_and_striping_gains(large):
    """Against the source with a process for each rail, and no difference with eight."""
    striped = accepted((64 * KIB,), ("round_robin",), striped=True)
    assert gain(large["random"], large["round_robin"]) < -_NONE
    assert gain(striped["round_robin"], large["round_robin"]) > _NONE
    busy = accepted((64 * KIB,), _TURNS, processes=32)
    striped = accepted((64 * KIB,), ("round_robin",), processes=32, striped=True)
    assert abs(gain(busy["random"], busy["round_robin"])) < _NONE
    assert abs(gain(striped["round_robin"], busy["round_robin"])) < _NONE


def test_traffic_both_ways_is_why_static_is_ahead_of_round_robin():
    policies = ("static", "round_robin", "local_dynamic", "dynamic")
    found = accepted((32 * KIB,), policies, rails=7)
    assert gain(found["dynamic"], found["static"]) > _NONE
    assert gain(found["round_robin"], found["static"]) < -_NONE
    free = accepted((32 * KIB,), policies, rails=7, network=Network(duplex=1.0))
    assert abs(gain(free["round_robin"], free["static"])) < _NONE
