"""The simulator of rail allocation: what must hold in every world, whatever the policy."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from nezha_tools.cli.errors import PlanError
from nezha_tools.bench.static_rails import fewest_rails
from nezha_study.sim.rails import jobs
from nezha_study.sim.rails.case import POLICIES, Case, Network
from nezha_study.sim.rails.case_runs import measure, measure_all
from nezha_study.sim.rails.offered_load import Traffic, draw
from nezha_study.sim.rails.world import World, switches_between

KIB = 1 << 10
RESERVING = ("dynamic", "hybrid")
EVERY = list(itertools.product(POLICIES, (False, True)))


def a_case(policy, striped=False, **values):
    hosts = values.get("hosts", 8)
    rails = max(values.pop("rails", 3), fewest_rails(hosts) if policy == "static" else 1)
    return Case(policy, striped, **{"hosts": hosts, "rails": rails, "means": (16 * KIB,), "load": 1.0,
                                    "messages": 3, **values})


def given(case, *messages):
    """A world with these messages: (time, process, to process, bytes), in the order of time."""
    columns = [[message for message in messages if message[1] == process]
               for process in range(case.hosts * case.processes)]
    longest = max(map(len, columns))
    arrivals = np.full((len(columns), longest), np.inf)
    sizes, destinations = np.ones((2, len(columns), longest), dtype=np.int64)
    for process, column in enumerate(columns):
        for place, (time, _, to, size) in enumerate(column):
            arrivals[process, place], destinations[process, place] = time, to
            sizes[process, place] = size
    return World(case, Traffic(arrivals, sizes, destinations, 0.0))


def drained(world, check=None):
    """Runs until all messages are delivered; check(world) after each event."""
    world.start()
    events = 0
    while world.env.peek() < np.inf:
        world.env.step()
        events += 1
        assert events < 2_000_000, "it goes on for ever"
        if check is not None:
            check(world)
    return world


def all_ports(world):
    return [port for host in world.ports for port in host]


def no_port_does_two_things(world):
    network = world.case.network
    for port in all_ports(world):
        sent, received = port.sending, port.receiving
        assert sent is None or sent.source is port
        assert received is None or (received.target is port and received.source.sending is received)
        rates = [part.rate for part in (sent, received) if part is not None and part.rate > 0]
        assert sum(rates) <= network.bus * (1 if len(rates) < 2 else network.duplex) * (1 + 1e-9)
        assert all(part.source.rail == port.rail for part in port.waiting_parts)


def no_port_has_two_directions(world):
    for port in all_ports(world):
        assert port.sending is None or (port.receiving is None and not port.waiting_parts)


# ---- every policy ------------------------------------------------------------------------------


@pytest.mark.parametrize("policy, striped", EVERY)
@pytest.mark.parametrize("seed", [1, 2])
def test_nothing_is_lost_and_no_port_carries_two_things(policy, striped, seed):
    case = a_case(policy, striped, seed=seed)
    traffic = draw(case)
    world = drained(World(case, traffic), no_port_does_two_things)
    assert len(world.delivered) == world.offered == traffic.sizes.size
    assert sum(size for *_, size in world.delivered) == traffic.sizes.sum()
    assert world.wires.bytes_moved == pytest.approx(float(traffic.sizes.sum()))
    assert all(there > arrival for arrival, there, _ in world.delivered)
    for port in all_ports(world):
        assert port.is_idle and not port.waiting_parts
    assert not any(world._waiting)


@pytest.mark.parametrize("policy, striped", EVERY)
def test_what_is_under_way_is_the_difference(policy, striped):
    case = a_case(policy, striped)
    traffic = draw(case)
    world = World(case, traffic)
    world.run(traffic.horizon_us / 2)
    processes = case.hosts * case.processes
    assert 0 <= world.offered - len(world.delivered) <= processes
    assert world.wires.bytes_moved >= sum(size for *_, size in world.delivered) * (1 - 1e-9)


@pytest.mark.parametrize("policy, striped", EVERY)
@pytest.mark.parametrize("hops, size", [(1, 4 * KIB), (3, 100_000), (5, 1)])
def test_one_message_takes_what_the_formula_says(policy, striped, hops, size):
    case = a_case(policy, striped, hosts=32, processes=1, short_bytes=2 * KIB)
    to = {1: 3, 3: 15, 5: 31}[hops]
    assert switches_between(0, to) == hops
    world = drained(given(case, (10.0, 0, to, size)))
    (_, there, _), = world.delivered
    network, way = case.network, hops * 0.035
    reserved = policy == "dynamic" or (policy == "hybrid" and size >= 2 * KIB)
    parts = 1
    if striped and (policy != "hybrid" or reserved):
        parts = len(world.policy.striped_rails(0, to))
    expected = network.startup_us + way + size / parts / network.bus + reserved * 2 * (
        way + network.control_us)
    assert there - 10.0 == pytest.approx(expected)
    assert (world.reservations.counts["grants"] > 0) == reserved


@pytest.mark.parametrize("policy, striped", EVERY)
def test_throughput_keeps_below_the_bus(policy, striped):
    accepted = {duplex: measure(a_case(policy, striped, load=3.0, messages=30,
                                       network=Network(duplex=duplex))).accepted
                for duplex in (1.0, 0.5)}
    assert all(0.1 < each <= 1.0 for each in accepted.values())
    if policy in ("static", "dynamic"):  # these never share a bus
        assert accepted[0.5] == accepted[1.0]
    elif policy == "hybrid":  # seldom
        assert accepted[0.5] < 1.05 * accepted[1.0]
    else:
        assert accepted[0.5] < 0.95 * accepted[1.0]


@pytest.mark.parametrize("busy", [0.3, 0.6])
def test_one_sender_waits_as_the_formula_says(busy):
    """One process to one other is a queue with one server: Pollaczek and Khinchine's mean wait."""
    case = a_case("round_robin", hosts=2, rails=1, processes=1)
    start = case.network.startup_us + case.network.switch_us
    mean = 10_000 / case.network.bus
    gap = (start + mean) / busy
    rng = np.random.default_rng(5)
    sizes = np.maximum(1, rng.exponential(10_000, 30_000)).astype(int)
    arrivals = np.cumsum(rng.exponential(gap, len(sizes)))
    world = drained(given(case, *zip(arrivals.tolist(), [0] * len(sizes), [1] * len(sizes),
                                     sizes.tolist())))
    latency = np.mean([there - arrival for arrival, there, _ in world.delivered])
    second_moment = start**2 + 2 * start * mean + 2 * mean**2
    assert latency == pytest.approx(start + mean + second_moment / gap / 2 / (1 - busy), rel=0.05)


def test_both_directions_of_a_port_share_its_bus():
    case = a_case("modulo", hosts=2, rails=1, processes=1)
    world = drained(given(case, (0.0, 0, 1, 340_000), (0.0, 1, 0, 340_000)))
    network = case.network
    for _, there, _ in world.delivered:  # alone 1000 us, together 0.8 of the bus for both
        assert there == pytest.approx(network.startup_us + 0.035 + 2 * 1000 / 0.8)


def test_a_blocked_message_blocks_what_is_behind_it():
    case = a_case("round_robin", hosts=4, rails=1, processes=2)
    world = drained(given(case, (0.0, 0, 6, 340_000),  # host 3 receives 1000 us
                          (1.0, 2, 6, 340_000),  # host 1 waits for host 3
                          (2.0, 3, 5, 340)))  # and so does what host 1 has for the idle host 2
    there = [delivery for _, delivery, _ in sorted(world.delivered)]
    assert there[1] == pytest.approx(there[0] + 1000)
    assert there[2] > there[1]


def test_the_static_policy_never_uses_a_port_both_ways():
    case = a_case("static", hosts=20, load=2.0)
    directions = {}

    def check(world):
        for port in all_ports(world):
            for way, part in (("sends", port.sending), ("receives", port.receiving)):
                if part is not None:
                    assert directions.setdefault((port.host, port.rail), way) == way

    drained(World(case, draw(case)), check)
    assert len(set(directions.values())) == 2


# ---- reservation -------------------------------------------------------------------------------


@pytest.mark.parametrize("striped", [False, True])
@pytest.mark.parametrize("seed", range(4))
def test_reserved_ports_have_one_direction_at_a_time(striped, seed):
    case = a_case("dynamic", striped, seed=seed, load=3.0, messages=3)
    world = drained(World(case, draw(case)), no_port_has_two_directions)
    assert world.reservations.counts["refusals"] > 0


def circle(count, case, rng):
    """Everybody asks the next at nearly the same time, twice; ids are shuffled."""
    ring = rng.permutation(count)
    return given(case, *sorted((float(rng.random()) if turn else 0.0, int(ring[place]),
                                int(ring[(place + 1) % count]), int(rng.integers(1, 64 * KIB)))
                               for turn in (0, 1) for place in range(count)))


@pytest.mark.parametrize("policy, striped", list(itertools.product(RESERVING, (False, True))))
@pytest.mark.parametrize("count", [2, 3, 4, 7, 16])
def test_requests_in_a_circle_end(policy, striped, count):
    withdrawn = 0
    for seed in range(8):
        rng = np.random.default_rng([count, seed])
        rails = int(rng.integers(1, 4))
        case = Case(policy, striped, hosts=count, rails=rails, processes=1, seed=seed, short_bytes=KIB)
        world = drained(circle(count, case, rng))
        assert len(world.delivered) == 2 * count
        withdrawn += world.reservations.counts["withdrawn"]
    assert withdrawn > 0, "no two requests ever met"


def test_without_an_order_requests_in_a_circle_do_not_end(monkeypatch):
    """What the order is for: when nobody gives way, equal pauses repeat the same refusals for ever."""
    case = Case("dynamic", hosts=3, rails=1, processes=1)
    messages = [(0.0, 0, 1, KIB), (0.0, 1, 2, KIB), (0.0, 2, 0, KIB)]
    ordered = given(case, *messages)
    monkeypatch.setattr(ordered.reservations, "pause_us", lambda job: 4.0)
    ordered.run(1000.0)
    assert len(ordered.delivered) == 3 and ordered.reservations.counts["withdrawn"] > 0
    monkeypatch.setattr(jobs, "is_older", lambda one, other: False)
    unordered = given(case, *messages)
    monkeypatch.setattr(unordered.reservations, "pause_us", lambda job: 4.0)
    unordered.run(1000.0)
    assert not unordered.delivered and unordered.reservations.counts["refusals"] > 100


@pytest.mark.parametrize("seed", range(12))
def test_random_worlds_deliver_everything(seed):
    rng = np.random.default_rng(seed)
    hosts = int(rng.integers(2, 8))
    case = Case(RESERVING[seed % 2], bool(rng.integers(2)), hosts=hosts, rails=int(rng.integers(1, 5)),
                means=(int(rng.integers(1, 64 * KIB)),), load=3.0, seed=seed,
                processes=int(rng.integers(1, 6)), messages=4)
    world = drained(World(case, draw(case)), no_port_does_two_things)
    assert len(world.delivered) == world.traffic.sizes.size
    counts = world.reservations.counts
    assert counts["grants"] + counts["refusals"] == counts["requests"]
    assert counts["cancelled"] <= counts["withdrawn"]


# ---- runs --------------------------------------------------------------------------------------


def test_runs_are_repeated_by_their_seed():
    cases = [a_case(policy, load=0.8, seed=seed) for policy in ("random", "dynamic") for seed in (1, 2)]
    alone = {case: measure(case) for case in cases}
    together = measure_all(cases, lambda _: None)
    assert together == alone and list(together) == cases
    assert alone[cases[0]] != alone[cases[1]]


def test_traffic_is_what_was_asked_for():
    case = Case("dynamic", hosts=16, load=0.5, means=(2 * KIB, 32 * KIB), messages=200)
    traffic = draw(case)
    before = traffic.arrivals_us < traffic.horizon_us
    assert traffic.sizes[before].sum() / traffic.horizon_us == pytest.approx(0.5 * case.limit, rel=0.05)
    own = np.arange(64)[:, None] // 4
    assert (traffic.destinations // 4 != own).all()
    assert set(np.unique(traffic.destinations)) == set(range(64))
    assert (draw(case).sizes == traffic.sizes).all()


@pytest.mark.parametrize("values, words", [
    ({"policy": "fair"}, "policy 'fair': it must be one of modulo, random"),
    ({"hosts": 0}, "nodes 0: it must be a whole number from 2 to 1024"),
    ({"rails": 0}, "rails 0: it must be a whole number from 1"),
    ({"load": -0.5}, "load -0.5: it must be a number above 0, at most 4"),
    ({"load": float("nan")}, "load nan: it must be"),
    ({"means": (0,)}, "mean 0: it must be"),
    ({"means": ()}, "mean .*: it must be 1 to 8 sizes"),
    ({"policy": "static", "hosts": 128}, "rails 4: it must be at least 10 for static directions"),
])
def test_cases_that_cannot_be(values, words):
    with pytest.raises(PlanError, match=words):
        Case(**{"policy": "dynamic", **values})
