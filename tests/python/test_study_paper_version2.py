"""Version 2's abstract in `nezha study paper`: Gloo and MPTCP beside, and fail-over."""

from __future__ import annotations

import numpy as np
import pytest
from study_paper_fakes import FAKES

import nezha
from nezha_study.paper import failover, failover_worker, peers, version2
from nezha_study.paper.combinations import ALL, by_key
from nezha_study.paper.context import Context
from nezha_study.paper.failover_worker import Operations, Phase
from nezha_study.paper.jobs import Settings, operation_s
from nezha_tools.bench.spec import Sample
from nezha_tools.cli.errors import BenchError

SETTINGS = Settings(500)
MACHINE = {"processor": "a processor", "cores": 2}


@pytest.fixture
def context():
    results = {job.key: FAKES[job.kind](job) for job in version2.jobs(ALL, [2, 4])}
    assert list(results) == ["peers-4-TT", "failover-4-TT"]
    return Context(results, SETTINGS, MACHINE, [2, 4], list(ALL))


def claims(context):
    return {each.says.split()[0]: each for each in version2.build(context).claims}


def test_the_claims_of_the_abstract(context):
    section = version2.build(context)
    mptcp, gloo, over, *rest = section.claims
    assert "74 % higher" in mptcp.says and mptcp.sign and "is +25 to +25 %" in mptcp.found
    assert "1.7 to 4.3 times" in gloo.says and gloo.sign and "2.0 to 2.0 times" in gloo.found
    assert "within 200 ms" in over.says and over.order and "0 of 2 took longer" in over.found
    assert [each.verdict for each in rest] == ["not compared"] * 2
    assert section.tables[0].cells[0][1] == "10.2 us (50 : 50)"
    assert all(each.place == "Abstract of version 2" for each in section.claims)


def test_losses_and_late_results_differ_from_the_paper(context):
    for row in context.results["peers-4-TT"]["rows"]["gloo-mptcp"]:
        row["time_us"] /= 2
    context.results["failover-4-TT"]["faults"][1]["longest_ms"] = 201.0
    found = claims(context)
    assert found["Over"].sign is None  # the last of this name is not measured
    assert version2.build(context).claims[0].sign is False and found["When"].order is False


def test_faults_that_the_library_did_not_see_do_not_count(context):
    faults = context.results["failover-4-TT"]["faults"]
    faults[1].update(longest_ms=900.0, counters=dict.fromkeys(failover_worker.COUNTERS, 0))
    section = version2.build(context)
    assert "0 of 1 took longer" in section.claims[2].found
    assert section.tables[1].cells[1][:4] == ["it is silent", "1", "0", "-"]


def test_what_is_missing_and_what_is_idle_is_said(context):
    measured = context.results["peers-4-TT"]
    measured["rows"]["gloo-mptcp"][2]["rails"] = [{"share": 1.0}, {"share": 0.0}]
    assert "MPTCP USED ONE RAIL ONLY" in version2.build(context).line
    del measured["rows"]["gloo-mptcp"], measured["rows"]["gloo"]
    measured["missing"] = {"gloo": "no torch", "gloo-mptcp": "no torch"}
    section = version2.build(context)
    assert "NOT MEASURED: gloo (as torch calls it, on the fastest rail): no torch." in section.line
    assert [each.says.split()[0] for each in section.claims] == ["When", "Over", "On"]


def test_a_wrong_element_of_any_library_ends_it():
    sample = Sample(size=1024, count=256, ranks=4, times_us=[1.0], mean_us=1.0, wrong=2, cpu_s=0.0)
    job = peers.jobs(ALL, [4])[0]
    for library, said in (("nezha", "2 WRONG ELEMENTS of an all_reduce of 1K"),
                          ("gloo", "2 wrong elements of gloo")):
        with pytest.raises(BenchError, match=said):
            job._check(library, [sample])


# ---- fail-over


def test_the_longest_time_without_a_result():
    ends = [0.0, 0.01, 0.02, 0.03, 0.13, 0.14]
    found = failover.outcome(Phase("struck", ends, {"endpoints_lost": 1}, 0, True), 0.025)
    assert found["usual_ms"] == pytest.approx(10) and found["longest_ms"] == pytest.approx(100)
    for at_s in (-1.0, 1.0):  # nothing before, nothing since
        with pytest.raises(BenchError, match="a rail was to fail while operations run"):
            failover.outcome(Phase("struck", ends, {}, 0, True), at_s)


class _Spoils:
    """A communicator that changes one element of its second operation."""

    rank, world_size = 0, 1

    def __init__(self) -> None:
        self.calls = 0

    def all_reduce(self, data):
        self.calls += 1
        data[1] += self.calls == 2


def test_a_wrong_element_is_counted_with_the_next_operation():
    operations = Operations(_Spoils(), 1024)
    assert [operations.one(word) for word in (0.0, 0.0, 1.0, 2.0)] == [
        (0.0, 0), (0.0, 0), (1.0, 1), (2.0, 0)]


def test_a_world_of_one_goes_through_all_phases(capsys):
    with nezha.init() as comm:
        spec = failover_worker.FailoverSpec(1024, 2, 0.01, 0.02, 1.0)
        failover_worker.Leader(comm, spec, Operations(comm, spec.size)).run()
    lines = [line.encode() for line in capsys.readouterr().out.splitlines()]
    phases = Phase.parse(lines)
    assert [each.phase for each in phases] == ["steady", "struck"] * 2
    assert all(each.healed and each.wrong == 0 for each in phases)
    assert phases[1].ends_s == sorted(phases[1].ends_s) and len(phases[1].ends_s) > 2
    assert phases[1].counters == dict.fromkeys(failover_worker.COUNTERS, 0)


def test_operations_are_short_beside_a_fail_over():
    job = failover.jobs(ALL, [4])[0]
    for mbits in (100, 250, 1000):
        (size,) = job.sizes(Settings(mbits))
        assert size <= 1 << 20 and size % 4 == 0
        assert 0.004 < operation_s(4, 2, size, Settings(mbits)) < 0.012, mbits


def test_jobs_need_two_tcp_rails_and_little_time():
    assert version2.jobs([by_key("T")], [2]) == []
    for mbits in (1000, 250):
        assert sum(job.estimate(Settings(mbits)) for job in version2.jobs(ALL, [2, 4, 6])) < 360, mbits
    assert np.all([job.nodes == 6 for job in version2.jobs(ALL, [2, 6])])
