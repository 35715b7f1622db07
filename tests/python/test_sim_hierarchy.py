"""Hosts with several ranks: forms against the shipped schedules, shared ports, large worlds."""

import sys
from pathlib import Path

import numpy as np
import pytest

from nezha_tools.cli.errors import PlanError
from nezha_study.sim import cluster, forms, hierarchy, layout, sweep, waves
from nezha_study.sim.engine import Engine
from nezha_study.sim.operation import Question, simulate

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from oracle import in_time, shipped

EVEN = [layout.even(hosts, ranks) for hosts in range(2, 9) for ranks in range(2, 9)]
UNEVEN = [layout.Layout(np.array(counts)) for counts in (
    [1, 2], [3, 1], [1, 2, 4], [5, 1, 1, 3], [2, 2, 3], [8, 1, 8], [1, 9, 2], [12, 3],
    [4, 4, 4, 4, 4, 2])]
ONE = [(1e9, 10e-6)]


def of_hosts(hosts, rails, made, inside=(3e9, 5e-6), **more):
    found = cluster.uniform(hosts, rails, **more)
    found.layout, found.inside = made, inside
    return found


def test_there_is_a_form_for_every_hierarchy():
    assert set(shipped.catalog([0, 0, 1, 1])) == set(forms.known(layout.even(2, 2)))
    assert len(hierarchy.known()) >= 10


@pytest.mark.parametrize("collective, algorithm", hierarchy.known())
def test_every_transfer_is_the_shipped_one(collective, algorithm):
    for hosts in [*EVEN, *UNEVEN, layout.even(3, 9), layout.even(2, 20)]:
        root = hosts.ranks * 7 // 5 % hosts.ranks
        made = waves.rows(forms.form(collective, algorithm, hosts.ranks, root, hosts))
        assert made == shipped.rows(collective, algorithm, hosts.ranks, root, hosts), hosts.counts


def allowed(collective, algorithm, size, ranks):
    """The size, or what fits into the credit: an all_to_all of rows has all vectors in one chunk."""
    if (collective, algorithm) in (("all_to_all", "leaders"), ("all_to_all", "columns")):
        return min(size, (4 << 20) // ranks**2 // 4 * 4 * ranks)
    return 0 if collective == "barrier" else size


def both(hosts, collective, algorithm, size, root):
    """Seconds of the form, wave by wave, and of the shipped schedules, in the order of time."""
    size = allowed(collective, algorithm, size, hosts.layout.ranks)
    made = waves.plan({"collective": collective, "bytes": size, "world_size": hosts.ranks, "root": root,
                       "algorithm": algorithm, "dtype": "float32", "rails": hosts.rails, "rate_gbps": 8,
                       "host_of": hosts.layout.host_of.tolist()})
    form = forms.form(collective, algorithm, hosts.ranks, root, hosts.layout)
    count = size // made.element_bytes
    ours = Engine(hosts, form, made, count, range(hosts.rails), multiply=False).run().total_s
    return ours, in_time.run(hosts, collective, algorithm, made, count, root)


@pytest.mark.parametrize("collective, algorithm", hierarchy.known())
def test_every_rank_waits_for_what_the_shipped_schedule_waits_for(collective, algorithm):
    """Where only latencies count, and hosts begin at times of their own."""
    for made in [*EVEN[:3], layout.even(5, 3), layout.even(4, 4), *UNEVEN]:
        hosts = of_hosts(made.hosts, [(1e17, 50e-6), (1e17, 50e-6)], made, (1e17, 7e-6), adds=1e17)
        for host, late in enumerate(np.random.default_rng(made.ranks).random(made.hosts)):
            cluster.late_host(hosts, host, 3e-4 * late)
        for size in (4 * made.ranks, 1 << 20):
            ours, theirs = both(hosts, collective, algorithm, size, made.ranks // 3)
            assert ours == pytest.approx(theirs, rel=1e-6), made.counts


@pytest.mark.parametrize("collective, algorithm", hierarchy.known())
def test_one_chunk_takes_what_it_takes_in_the_order_of_time(collective, algorithm):
    for made in (layout.even(4, 4), layout.even(8, 2), layout.even(3, 8)):
        hosts = of_hosts(made.hosts, [(1e9, 50e-6), (1e9, 50e-6)], made)
        ours, theirs = both(hosts, collective, algorithm, made.ranks << 5, 0)
        assert ours == pytest.approx(theirs, rel=0.01), made.counts


@pytest.mark.parametrize("rails", [ONE, [(6.25e9, 5e-6)] * 8])
@pytest.mark.parametrize("collective, algorithm", forms.known(layout.even(2, 2)))
def test_what_is_multiplied_is_what_running_all_gives(collective, algorithm, rails):
    for made, sizes in ((layout.even(16, 4), (64 << 12, 4 << 20)), (layout.even(21, 3), (63 << 8,))):
        hosts = of_hosts(made.hosts, rails, made, gap_s=0.5e-6)
        for size in sizes:
            question = Question(collective, allowed(collective, algorithm, size, made.ranks), algorithm)
            quick, whole = (simulate(hosts, question, multiply=each).outcome for each in (True, False))
            assert quick.total_s == pytest.approx(whole.total_s, rel=1e-9), made.counts
            assert np.allclose(quick.sent, whole.sent) and np.allclose(quick.inside_s, whole.inside_s)
            assert np.allclose(quick.done_s, whole.done_s, rtol=1e-9)


@pytest.mark.parametrize("collective", ["broadcast", "reduce"])
def test_a_long_chain_is_multiplied_alike(collective):
    made = layout.even(1100, 4)
    hosts = of_hosts(1100, ONE, made, gap_s=1e-6)
    for algorithm in ("hierarchical", "chain"):
        question = Question(collective, 1 << 20, algorithm)
        quick, whole = (simulate(hosts, question, multiply=each).outcome for each in (True, False))
        assert quick.waves_run < whole.waves_run or (collective, algorithm) == ("reduce", "chain")
        assert quick.total_s == pytest.approx(whole.total_s, rel=1e-6)


def test_ranks_of_a_host_share_its_ports():
    """A ring around one rank of each host after the other crosses between hosts once each; an exchange of
    all ranks with another host sends their bytes one after the other."""
    made = layout.even(2, 4)
    hosts = of_hosts(2, ONE, made)
    whole = 8 << 20
    ring = simulate(hosts, Question("all_reduce", whole, "ring")).outcome
    assert ring.sent.sum() == pytest.approx(2 * 2 * 7 / 8 * whole)
    shards = simulate(hosts, Question("all_reduce", whole, "hierarchical")).outcome
    assert shards.sent.sum() == pytest.approx(2 * whole)
    assert shards.inside_s.max() == pytest.approx(2 * 3 / 4 * whole / 3e9, rel=0.01)
    assert shards.total_s < ring.total_s
    exchange = simulate(hosts, Question("all_reduce", whole, "recursive_doubling")).outcome
    assert exchange.sent.sum() == pytest.approx(8 * whole)
    assert exchange.busy_s.max() == pytest.approx(4 * whole / 1e9, rel=0.01)


def test_memory_as_slow_as_the_rails_costs():
    made = layout.even(4, 4)
    quick = of_hosts(4, [(1e10, 5e-6)], made, (1e11, 1e-6))
    slow = of_hosts(4, [(1e10, 5e-6)], made, (1e9, 1e-6))
    question = Question("all_gather", 64 << 20, "hierarchical")
    assert simulate(slow, question).outcome.total_s > 5 * simulate(quick, question).outcome.total_s


def test_the_library_chooses_by_the_hosts():
    hosts = of_hosts(8, ONE, layout.even(8, 4))
    assert simulate(hosts, Question("all_reduce", 64 << 20)).plan.algorithm == "hierarchical"
    assert simulate(hosts, Question("barrier", 0)).plan.algorithm == "leaders"
    flat = simulate(hosts, Question("all_reduce", 64 << 20, hierarchy=False))
    assert flat.plan.algorithm not in ("hierarchical", "leaders")


def test_twenty_thousand_hosts_of_four_ranks():
    """Counted, not timed: only waves that differ are run."""
    made = layout.even(20000, 4)
    hosts = of_hosts(20000, [(6.25e9, 5e-6)] * 8, made, gap_s=0.5e-6)
    for collective in ("all_reduce", "all_gather", "reduce_scatter"):
        outcome = simulate(hosts, Question(collective, 4 << 20, "hierarchical")).outcome
        assert outcome.waves >= 19999 and outcome.waves_run < 1000
        assert np.isfinite(outcome.total_s) and outcome.total_s > 0


def test_hosts_that_differ_are_said_to_be_rough():
    hosts = of_hosts(3, ONE, layout.Layout(np.array([1, 2, 4])))
    assert simulate(hosts, Question("all_reduce", 1 << 20, "hierarchical")).is_rough


@pytest.mark.parametrize("text, hosts, words", [
    ("0", [4], "'0': it must be a whole number above 0"), ("-1", [4], "'-1'"), ("x", [4], "'x'"),
    ("1,2", [4], "one number, or 4 of them"), ("5", [60000], "262144 at most"), ("", [4], "''"),
])
def test_ranks_that_make_no_sense_get_a_sentence(text, hosts, words):
    with pytest.raises(PlanError, match="ranks-per-host|ranks; they") as error:
        layout.parse(text, hosts)
    assert words in str(error.value)


def test_hierarchies_are_refused_where_hosts_say_nothing():
    with pytest.raises(PlanError, match="several hosts with several ranks"):
        simulate(cluster.uniform(4, ONE), Question("all_reduce", 1 << 20, "hierarchical"))


def drawn(pyplot, rows):
    """What each line of the picture shows, without the legend's."""
    figure, axes = pyplot.subplots()
    sweep._curves(axes, rows, [], "size", "hosts", [4], str)
    pyplot.close(figure)
    return [list(line.get_ydata()) for line in axes.lines if len(line.get_ydata())]


def test_the_picture_has_a_flat_time_at_every_size():
    pyplot = pytest.importorskip("matplotlib.pyplot")
    rows = [{"hosts": 4, "ranks": 16, "size": size, "time_us": time, "flat": flat, "algorithm": "ring",
             "rough": True} for size, time, flat in
            ((4, 1.0, {"time_us": 2.0}), (8, 3.0, None), (16, 5.0, {"time_us": 9.0}))]
    assert drawn(pyplot, rows) == [[1.0, 3.0, 5.0], [2.0, 3.0, 9.0]]
    # One point took too long in the simulation.
    rows[1]["algorithm"] = "leaders"
    assert drawn(pyplot, rows) == [[1.0, 3.0, 5.0], [3.0], [2.0, 3.0, 9.0]]
    assert sweep._ranks_text(rows) == "; 4 ranks a host"
    assert sweep._ranks_text([*rows, {"hosts": 2, "ranks": 3}]) == "; hosts of several ranks"
    assert sweep._ranks_text([{"hosts": 2, "ranks": 2}]) == ""
