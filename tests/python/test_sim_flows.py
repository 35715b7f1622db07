"""Messages in the order of time: fair parts, closed forms, waves where nobody waits; what is rough."""

import numpy as np
import pytest

from nezha_study.sim import cluster, fair, flows, forms, messages, waves
from nezha_study.sim.cluster import FRAME_BYTES, Tree
from nezha_study.sim.engine import Engine
from nezha_study.sim.operation import Question, simulate

RATE, LATENCY = 1e9, 10e-6
ONE = [(RATE, LATENCY)]


def test_fair_parts_are_max_min():
    # Bertsekas and Gallager: three flows on one link, of which one is held to less by another link.
    links = np.array([[0, 0, 0, 1], [0, 0, 1, 1]])
    found = fair.rates(links, np.array([9.0, 4.0]))
    assert found.tolist() == pytest.approx([3.5, 3.5, 2.0, 2.0])


@pytest.mark.parametrize("seed", range(20))
def test_fair_parts_fill_a_link_of_every_flow(seed):
    random = np.random.default_rng(seed)
    links = random.integers(0, 12, (4, 40))
    capacity = random.uniform(1, 10, 12)
    found = fair.rates(links, capacity)
    crosses = np.array([(links == link).any(axis=0) for link in range(12)])
    used = crosses @ found
    assert (used <= capacity * (1 + 1e-6)).all() and (found > 0).all()
    for flow in range(40):  # a flow gets most on a link that is full
        assert any(used[link] >= capacity[link] * (1 - 1e-6)
                   and found[flow] >= found[crosses[link]].max() * (1 - 1e-6)
                   for link in np.flatnonzero(crosses[:, flow]))


def build(hosts, collective, algorithm, size, rails):
    made = waves.plan({"collective": collective, "bytes": size, "world_size": hosts.hosts, "root": 0,
                       "algorithm": algorithm, "dtype": "float32", "rails": len(rails), "rate_gbps": 8.0})
    form = forms.form(collective, algorithm, hosts.hosts, 0)
    return hosts, form, made, size // made.element_bytes, rails


@pytest.mark.parametrize("collective, algorithm", forms.known())
def test_where_nobody_waits_for_a_link_it_is_what_waves_give(collective, algorithm):
    size = 0 if collective == "barrier" else 1 << 20
    asked = build(cluster.uniform(16, ONE), collective, algorithm, size, [0])
    one, other = flows.Flows(*asked).run(), Engine(*asked, multiply=False).run()
    assert one.total_s == pytest.approx(other.total_s, rel=1e-2)
    assert one.sent == pytest.approx(other.sent)


def test_two_that_send_to_one_host_share_its_port_from_when_the_second_begins():
    size, late = 1 << 20, 0.5e-3
    hosts = cluster.uniform(3, ONE)
    cluster.late_host(hosts, 2, late)
    made = simulate(hosts, Question("gather", 3 * size, "direct"))
    assert made.plan.chunks * size and not made.is_rough
    # The port of host 0 takes both: it is busy from the beginning until all bytes are there.
    whole = 2 * (size + made.plan.chunks * FRAME_BYTES) / RATE
    assert made.outcome.total_s == pytest.approx(whole + 2 * LATENCY, rel=1e-6)
    record = simulate(hosts, Question("gather", 3 * size, "direct"), record=True).outcome.transfers
    first = [each for each in record if each.src == 1]
    alone = (size + made.plan.chunks * FRAME_BYTES) / RATE
    # Alone until the other one begins, and at half the rate from then on.
    assert first[-1].end_s == pytest.approx(late + 2 * (alone - late), rel=1e-6)


def test_hosts_that_begin_apart_share_an_uplink_only_while_both_send():
    size = 1 << 20
    hosts = cluster.uniform(4, ONE)
    hosts.tree = Tree(2, 2.0)  # an uplink as fast as one port
    together = simulate(hosts, Question("all_to_all", 4 * size, "pairwise")).outcome
    cluster.late_host(hosts, 1, 1.0)  # so late that the other of its pod is through
    apart = simulate(hosts, Question("all_to_all", 4 * size, "pairwise")).outcome
    of_one = 3 * (size + FRAME_BYTES) / RATE
    assert apart.done_s[1] - 1.0 == pytest.approx(of_one, rel=0.02)
    assert together.total_s == pytest.approx(4 * (size + FRAME_BYTES) / RATE + 2 * LATENCY, rel=1e-3)


@pytest.mark.parametrize("collective, algorithm", [("all_reduce", "ring"), ("all_gather", "bruck"),
                                                   ("all_to_all", "pairwise")])
def test_windows_change_little(collective, algorithm, monkeypatch):
    hosts = cluster.uniform(24, [(3e9, 20e-6), (1e9, 50e-6)])
    hosts.tree = Tree(6, 3.0)
    cluster.vary(hosts, 0.2, 1)
    question = Question(collective, 1 << 20, algorithm)
    exact = simulate(hosts, question).outcome
    monkeypatch.setattr(flows, "_EXACT_MAX", 0)
    windows = simulate(hosts, question).outcome
    assert windows.total_s == pytest.approx(exact.total_s, rel=0.05)
    assert windows.sent.sum() == exact.sent.sum()


@pytest.mark.parametrize("collective, algorithm", forms.known())
def test_every_message_is_there_once(collective, algorithm):
    hosts, form, made, count, _ = build(cluster.uniform(9, ONE), collective, algorithm, 9 << 16, [0])
    made_of = messages.unroll(form, waves.Sizes(made, count, 9, exact=True), made.chunks)
    assert made_of.src.size == messages.count(form, made.chunks, 1 << 30)
    assert made_of.src.size == made.chunks * len(waves.rows(form))
    assert (made_of.host[made_of.sent_in] == made_of.src).all()
    assert (made_of.host[made_of.needed_in] == made_of.dst).all()


def test_what_is_too_large_for_it_says_so():
    from nezha_study.sim import results

    hosts = cluster.uniform(513, ONE)
    hosts.tree = Tree(32, 2.0)
    rough = simulate(hosts, Question("all_reduce", 1 << 20, "halving_doubling"))
    assert rough.is_rough and "wave by wave" in results.row(hosts, rough)["rough"]
    hosts.tree = None
    assert not simulate(hosts, Question("all_reduce", 1 << 20, "halving_doubling")).is_rough


def test_a_chain_is_left_to_waves():
    hosts = cluster.uniform(8, ONE)
    hosts.tree = Tree(4, 2.0)
    assert not flows.are_needed(hosts, forms.form("reduce", "chain", 8, 0))
    assert flows.are_needed(hosts, forms.form("reduce", "tree", 8, 0))
