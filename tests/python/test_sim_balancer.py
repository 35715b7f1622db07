"""What the balancer converges to: the shipped binder, the shipped policy, and the command."""

import json

import numpy as np
import pytest
from typer.testing import CliRunner

from nezha_study.sim.command import app
from nezha_tools.cli.errors import PlanError
from nezha_study.plan.library import ask
from nezha_study.sim import cluster, convergence
from nezha_study.sim.binders import PROBE_BYTES, Binders
from nezha_study.sim.operation import Question, simulate

UNEQUAL = [(1e9, 5e-6), (5e8, 5e-6)]
RATES = ["--rates", "8G:5us,4G:5us"]


def run(*arguments):
    return CliRunner().invoke(app, ["balancer", *arguments])


@pytest.mark.parametrize("weights", [[0.5, 0.3, 0.2], [0.7, 0, 0.3], [1, 0, 0]])
def test_transfers_go_where_the_shipped_binder_sends_them(weights):
    sizes = np.random.default_rng(3).integers(1000, 300000, 40).tolist()
    binders = Binders(3)
    binders.begin(weights)
    rails = [{"rate_gbps": 8, "latency_us": 5, "backlog_bytes": 0}] * 3
    for number, size in enumerate(sizes):
        picked = binders.pick(np.array([0]), np.array([1]), np.array([size]))
        asked = ask("bind", {"bytes": size, "rails": rails, "weights": weights, "before": sizes[:number]})
        assert asked["rail"] == picked[0], number


@pytest.mark.parametrize("kib, divided", [(32, False), (48, True), (64, True)])
def test_what_splitting_costs_is_paid_where_the_library_divides(kib, divided):
    slow = cluster.uniform(4, [(1e7, 5e-6)] * 2)
    slow.split_cost_s = 0.0
    free = simulate(slow, Question("all_reduce", kib << 10)).outcome.total_s
    slow.split_cost_s = 1e-6
    assert simulate(slow, Question("all_reduce", kib << 10)).outcome.total_s == pytest.approx(
        free + (1e-6 if divided else 0), abs=1e-12)


def test_every_pair_of_hosts_has_its_own_binder_and_a_probe_takes_the_first_bytes():
    binders = Binders(2)
    binders.begin([1, 0], probe=1)
    src, dst, size = np.array([0, 1]), np.array([1, 0]), np.array([PROBE_BYTES, PROBE_BYTES / 2])
    assert binders.pick(src, dst, size).tolist() == [1, 1]
    assert binders.pick(src, dst, size).tolist() == [0, 1]
    assert binders.pick(src, dst, size).tolist() == [0, 0]


def test_shares_converge_to_the_rates_and_the_time_to_that_of_pull():
    question = Question("all_reduce", 8 << 20, "ring")
    hosts = cluster.uniform(4, UNEQUAL)
    found = convergence.converge(hosts, question, [1e9, 1e9], 200)
    assert found.shares == pytest.approx([2 / 3, 1 / 3], abs=0.015) and found.state == "all rails"
    assert found.time_s == pytest.approx(simulate(hosts, question).outcome.total_s, rel=0.02)
    assert found.operations is not None and found.operations >= 10
    assert found.first_s > 1.2 * found.time_s  # equal shares at first


def test_a_rail_that_costs_more_than_it_carries_ends_without_a_share():
    hosts = cluster.uniform(4, [(1e9, 5e-6), (2e7, 5e-6)])
    found = convergence.converge(hosts, Question("all_reduce", 1 << 20, "ring"), [1e9, 1e9], 200)
    assert found.state == "one rail" and found.shares == [1, 0]


def test_what_still_changes_is_not_called_converged():
    found = convergence.converge(cluster.uniform(4, UNEQUAL), Question("all_reduce", 8 << 20, "ring"),
                                 [1e9, 1e9], 20)
    assert found.operations is None and len(found.history) == 20


def test_the_command_prints_a_row_for_every_question():
    document = json.loads(run("--nodes", "2,4", *RATES, "-b", "1M", "-e", "8M", "--json").output)
    assert [(row["hosts"], row["size"]) for row in document["rows"]] == [
        (hosts, size) for hosts in (2, 4) for size in (1 << 20, 8 << 20)]
    for row in document["rows"]:
        assert len(row["history"]) == row["operations_run"] and sum(row["shares"]) == pytest.approx(1)
        assert row["time_us"] <= 1.05 * min(row["alone_us"])
    table = run("--nodes", "4", *RATES, "-b", "8M", "-e", "8M", "--advertised", "10G,10G").output
    assert "all rails" in table and "67 33" in table


@pytest.mark.parametrize("arguments, words", [
    (["--nodes", "4", "--rates", "8G:5us"], "1 rail"),
    (["--nodes", "4"], "--rates RATE:LATENCY"),
    (["--nodes", "4", *RATES, "-b", "32K"], "above 65536 bytes"),
    (["--nodes", "4", *RATES, "--advertised", "8G"], "1 rates, and 2 rails"),
    (["--nodes", "4", *RATES, "--advertised", "8,8"], "with its unit"),
    (["--nodes", "4", *RATES, "--operations", "3"], "from 20 to 400"),
    (["--nodes", "0", *RATES], "from 1 to 65535"),
    (["--nodes", "1", *RATES], "nodes 1: it must be 2 or more"),
])
def test_mistakes_get_one_sentence(arguments, words):
    done = run(*arguments)
    assert done.exit_code == 2 and words in done.output and done.output.count("\n") == 1, done.output


@pytest.mark.parametrize("change, words", [
    ({"bytes": -1}, "bytes must be 0 or more"),
    ({"policy": "magic"}, "magic"),
    ({"rails": []}, "1 to 16"),
    ({"operations": [{"total_us": 1, "rails": []}]}, r"operations\[0\] must be"),
    ({"operations": [{"total_us": 1, "rails": [{"bytes": 1, "time_us": -1, "busy_us": 1}]}]},
     "numbers of 0 or more"),
])
def test_the_library_refuses_what_is_no_history(change, words):
    rail = {"rate_gbps": 1, "latency_us": 1}
    with pytest.raises(PlanError, match=words):
        ask("learn", {"bytes": 1 << 20, "rails": [rail], "operations": [], **change})
