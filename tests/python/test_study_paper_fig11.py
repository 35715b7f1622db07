"""Fig. 11 of `nezha study paper`: processors against speed, and the control groups that limit them."""

from __future__ import annotations

from pathlib import Path

import pytest
from study_paper_fakes import FAKES

from nezha_study.paper import cores, cpu_share, fig11
from nezha_study.paper.combinations import ALL
from nezha_study.paper.context import Context
from nezha_study.paper.jobs import Settings
from nezha_tools.cli.errors import BenchError

SETTINGS = Settings(500)
MACHINE = {"processor": "a processor", "cores": 2}


@pytest.fixture
def context(monkeypatch):
    monkeypatch.setattr(cpu_share, "refusal", lambda: None)
    results = {job.key: FAKES["cores"](job) for job in cores.jobs(ALL, [2, 4])}
    assert list(results) == ["cores-2-T", "cores-2-R", "cores-2-A"]
    return Context(results, SETTINGS, MACHINE, [2, 4], list(ALL))


def test_the_claims_of_the_paper(context):
    section = fig11.build(context)
    needs, lose = section.claims
    assert needs.found == "TCP needs 0.5, RDMA needs 1, aggregation needs 1." and needs.order
    assert "26 cores" in needs.says and "Fig. 11" in needs.place
    assert lose.found.startswith("With 0.25 processors TCP loses 50 %, RDMA loses 75 %") and lose.sign
    assert section.tables[0].cells[0][:3] == ["0.25", "4.19", "50 %"]


def test_networks_that_need_as_much_differ_from_the_paper(context):
    context.results["cores-2-T"]["cells"][1]["time_us"] *= 2
    assert fig11.build(context).claims[0].order is False


def test_without_control_groups_the_page_says_so(monkeypatch):
    monkeypatch.setattr(cpu_share, "refusal", lambda: "no groups")
    section = fig11.build(Context({}, SETTINGS, MACHINE, [2], list(ALL)))
    assert "NOT MEASURED HERE: no groups." in section.line and section.claims == section.tables == []


def test_where_no_group_can_be_made_the_reason_is_said(monkeypatch, tmp_path: Path):
    monkeypatch.setattr(cpu_share, "_here", lambda: cpu_share.Hierarchy(tmp_path / "gone", 2))
    assert "no control group can be made in" in cpu_share.refusal()
    assert "No such file or directory" in cpu_share.refusal()
    monkeypatch.setattr(cpu_share, "_here", lambda: None)
    assert cpu_share.refusal() == "this kernel has no control groups that limit processor time"
    with pytest.raises(BenchError, match="processor time cannot be limited: this kernel has no"):
        cpu_share.Group()


def test_hierarchies_of_control_groups(tmp_path: Path):
    old = ("cgroup /groups/cpu,cpuacct cgroup rw,cpu,cpuacct 0 0\n"
           "cgroup /groups/memory cgroup rw,memory 0 0\n")
    first = cpu_share.find(old)
    assert first == cpu_share.Hierarchy(Path("/groups/cpu,cpuacct"), 1)
    assert first.limits(0.5) == [("cpu.cfs_period_us", "20000"), ("cpu.cfs_quota_us", "10000")]
    assert first.home("3:memory:/m\n2:cpu,cpuacct:/jobs/one\n0::/\n") == first.root / "jobs/one"

    unified = f"cgroup2 {tmp_path} cgroup2 rw 0 0\n"
    assert cpu_share.find(unified) is None  # it gives its groups no controller of processors
    (tmp_path / "cgroup.subtree_control").write_text("cpu memory\n")
    second = cpu_share.find(unified)
    assert second == cpu_share.Hierarchy(tmp_path, 2)
    assert second.limits(2) == [("cpu.max", "40000 20000")]
    assert second.limits(0.001) == [("cpu.max", "1000 20000")]  # the kernel's least
    assert second.home("0::/user/one\n") == tmp_path / "user/one"
    assert cpu_share.find("tmpfs /tmp tmpfs rw 0 0\n") is None
