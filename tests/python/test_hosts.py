"""Hosts with several ranks: explain's layouts, what info finds, a lab's ranks, the bench's limit."""

import json
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from nezha import InvalidArgument, Unsupported, _native
from nezha_tools.bench.rows import _limit
from nezha_tools.bench.spec import RailSample, Sample
from nezha_tools.commands import app
from nezha_tools.explain.command import hosts_of
from nezha_tools.info.memory_probe import MemoryProbe, try_memory
from nezha_tools.info.topology import topology
from nezha_tools.lab import _process, _state

RANKS = """
import numpy, nezha
with nezha.init() as comm:
    x = numpy.full(100_003, comm.rank, dtype=numpy.int64)
    comm.all_reduce(x)
    assert (x == sum(range(comm.world_size))).all()
    used = {entry["algorithm"] for entry in comm.flight()["operations"]}
    assert used & {"hierarchical", "leaders"}, used
    stats = comm.stats()
    assert stats["memory_bytes_sent"] >= x.nbytes, stats
    print(stats["host_of"])
"""


def test_ranks_per_host_is_one_number_or_one_for_each_host():
    assert hosts_of("2", 4) == [0, 0, 1, 1]
    assert hosts_of("1,2,4", 99) == [0, 1, 1, 2, 2, 2, 2]
    for wrong in ("3", "0", "1,0", "x"):
        with pytest.raises(ValueError, match="--ranks-per-host"):
            hosts_of(wrong, 4)


def test_explain_names_what_goes_on_inside_hosts():
    request = {"collective": "all_reduce", "bytes": 1 << 24, "world_size": 16,
               "host_of": hosts_of("4", 16)}
    answer = json.loads(_native.query("explain", json.dumps(request)))
    assert answer["algorithm"] == "hierarchical" and "4 hosts of up to 4 ranks" in answer["text"]
    costs = {each["algorithm"]: each["bytes_factor"] for each in answer["candidates"]}
    assert costs["ring"] == pytest.approx(1.875) and costs["hierarchical"] == pytest.approx(1.5)
    assert answer["hosts"] == [{"leader": 4 * host, "ranks": list(range(4 * host, 4 * host + 4))}
                               for host in range(4)]
    assert answer["inside"] == "messages"
    for changes, inside in (({}, "memory"), ({"collective": "reduce_scatter"}, "memory"),
                            ({"collective": "reduce", "algorithm": "hierarchical"}, "messages"),
                            ({"algorithm": "ring"}, "")):
        changed = {**request, "shm": True, **changes}
        assert json.loads(_native.query("explain", json.dumps(changed)))["inside"] == inside
    request["host_of"].pop()
    with pytest.raises(InvalidArgument, match="host_of"):
        _native.query("explain", json.dumps(request))


def test_explain_of_a_deterministic_job_follows_neither_hosts_nor_rails():
    request = {"collective": "all_reduce", "bytes": 1 << 24, "world_size": 16, "deterministic": True}
    places = ({}, {"host_of": hosts_of("16", 16), "shm": True}, {"host_of": hosts_of("4", 16)},
              {"rails": 4, "rate_gbps": 100, "latency_us": 2})
    answers = [json.loads(_native.query("explain", json.dumps({**request, **place}))) for place in places]
    assert {answer["algorithm"] for answer in answers} == {"ring"}
    assert all("by nominal costs" in answer["text"] for answer in answers)
    assert answers[2]["hosts"][3]["leader"] == 12
    by_host = {**request, "host_of": hosts_of("4", 16)}
    whole = json.loads(_native.query("explain", json.dumps({**by_host, "dtype": "int32"})))
    assert whole["algorithm"] == "hierarchical"
    with pytest.raises(Unsupported, match="deterministic=on"):
        _native.query("explain", json.dumps({**by_host, "algorithm": "hierarchical"}))


def test_ranks_of_a_lab_fill_node_after_node():
    lab = _state.LabState("x", "loopback", 0, 0, "", [0], ["tcp"], "", 0.0, "exact", 0, 1,
                          nodes=[_state.NodeState("", "127.0.0.1"), _state.NodeState("", "127.0.0.1")],
                          ranks_per_node=3)
    places = [_process.rank_env(lab, rank) for rank in range(6)]
    assert [place["NEZHA_LAB_NODE"] for place in places] == ["0"] * 3 + ["1"] * 3
    assert [place["LOCAL_RANK"] for place in places] == ["0", "1", "2"] * 2
    assert {(place["WORLD_SIZE"], place["LOCAL_WORLD_SIZE"]) for place in places} == {("6", "3")}


def test_the_limit_is_that_of_the_hosts():
    rails = [RailSample("eth0", "eth0", 1, rate=1e6), RailSample("shm", "", 1, transport="shm")]
    sample = Sample(1000, 250, 16, [1.0], 1.0, 0, 0.0, rails, hosts=4)
    assert _limit("all_reduce", sample) == pytest.approx(1.5 * 1000 / 1e6)
    assert _limit("all_to_all", sample) == pytest.approx(4 * 0.75 * 1000 / 1e6)


def test_ranks_of_hosts_find_each_other_under_a_launcher(tmp_path):
    """Two hosts by host_id, as a launcher that knows nothing of Nezha starts their ranks."""
    script = tmp_path / "ranks.py"
    script.write_text(RANKS)
    job = f"NEZHA_HOST_ID=host$((RANK / 3)) exec {sys.executable} {script}"
    command = Path(sys.executable).with_name("nezha")
    done = subprocess.run([command, "run", "-n", "6", "sh", "-c", job], capture_output=True,
                          text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("[0, 0, 0, 1, 1, 1]") == 6


def test_the_root_leads_its_host():
    request = {"collective": "broadcast", "bytes": 64, "world_size": 6, "root": 4,
               "host_of": hosts_of("3", 6)}
    answer = json.loads(_native.query("explain", json.dumps(request)))
    assert answer["algorithm"] == "leaders" and [host["leader"] for host in answer["hosts"]] == [0, 4]
    with pytest.raises(InvalidArgument, match="root 6 is outside the world of 6 ranks"):
        _native.query("explain", json.dumps({**request, "root": 6}))
    request["collective"] = "all_reduce"  # has no root
    answer = json.loads(_native.query("explain", json.dumps(request)))
    assert [host["leader"] for host in answer["hosts"]] == [0, 3]


@pytest.mark.parametrize(("collective", "algorithm", "who"), [
    ("all_reduce", "leaders", "The leader of each host sends for it."),
    ("all_to_all", "columns", "All ranks of a host send to other hosts, each its part"),
    ("all_to_all", "hierarchical", "All ranks of a host send to other hosts, each its part"),
    ("all_to_all", "pairwise", "pairwise knows nothing of hosts")])
def test_explain_shows_hosts_and_leaders(collective, algorithm, who, capsys):
    with pytest.raises(SystemExit):
        app(["explain", collective, "-b", "64", "--ranks-per-host", "1,2,4", "--algorithm", algorithm])
    text = capsys.readouterr().out
    shown = [line.split() for line in text.splitlines()]
    assert ["0", "0", "0"] in shown and ["1", "1,", "2", "1"] in shown and ["2", "3-6", "3"] in shown
    assert who in " ".join(text.split())


def test_this_host_as_the_kernel_describes_it(tmp_path):
    for cpu in range(4):
        for index, (level, kind, size, shared) in enumerate([
                ("1", "Data", "32K", str(cpu)), ("1", "Instruction", "32K", str(cpu)),
                ("3", "Unified", "8192K", "0-1" if cpu < 2 else "2,3")]):
            cache = tmp_path / f"cpu/cpu{cpu}/cache/index{index}"
            cache.mkdir(parents=True)
            for name, text in (("level", level), ("type", kind), ("size", size),
                               ("shared_cpu_list", shared)):
                (cache / name).write_text(text + "\n")
    for node, cpus in (("node1", "2-3"), ("node0", "0-1"), ("node2", "")):  # the last has memory only
        (tmp_path / "node" / node).mkdir(parents=True)
        (tmp_path / "node" / node / "cpulist").write_text(cpus + "\n")
    found = topology(tmp_path)
    assert found["caches"] == [{"level": 1, "size": "32K", "count": 4, "shared_by": 1},
                               {"level": 3, "size": "8192K", "count": 2, "shared_by": 2}]
    assert found["numa_nodes"] == [{"node": 0, "processors": "0-1"}, {"node": 1, "processors": "2-3"}]
    assert found["boot_id"] and found["boot_id"] in found["identity"] and found["origin"] == ""


def test_host_id_is_what_counts(monkeypatch):
    monkeypatch.setenv("NEZHA_HOST_ID", "rack7")
    found = topology()
    assert found["identity"] == "rack7" and found["origin"] == "environment NEZHA_HOST_ID"


def test_shared_memory_is_tried(monkeypatch):
    monkeypatch.setenv("NEZHA_HOST_ID", "rack7")  # of the user's jobs; the trial's ranks do not see it
    trial = try_memory(3, 1 << 16)
    assert trial.works and trial.copy_rate > 0


def test_shared_memory_that_does_not_work_says_why(monkeypatch):
    """A process that may have no file of such a size cannot make the memory."""
    popen = subprocess.Popen

    def limited(*arguments, **options):
        return popen(*arguments, **options, preexec_fn=lambda: resource.setrlimit(
            resource.RLIMIT_FSIZE, (4096, 4096)))

    monkeypatch.setattr(subprocess, "Popen", limited)
    trial = try_memory()
    assert not trial.works and "the limit of file sizes (ulimit -f)" in trial.reason, trial


def test_info_in_half_an_environment_of_a_rank(monkeypatch, capsys):
    monkeypatch.setenv("WORLD_SIZE", "4")
    monkeypatch.setattr("nezha_tools.info.command.try_memory", lambda: MemoryProbe(""))
    with pytest.raises(SystemExit) as done:
        app(["info", "--json"])
    assert done.value.code == 0 and "job" not in json.loads(capsys.readouterr().out)


def test_info_inside_a_job_prints_its_hosts():
    job = f"NEZHA_HOST_ID=host$((RANK / 3)) exec {Path(sys.executable).with_name('nezha')} info --json"
    command = Path(sys.executable).with_name("nezha")
    done = subprocess.run([command, "run", "-n", "5", "sh", "-c", job], capture_output=True, text=True,
                          timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    text = "\n".join(line.partition("] ")[2] for line in done.stdout.splitlines())
    answer = json.loads(text)
    hosts = answer["job"]["hosts"]
    assert [(host["ranks"], host["leader"]) for host in hosts] == [([0, 1, 2], 0), ([3, 4], 3)]
    assert all(host["inside"] for host in hosts)
    assert answer["host"]["origin"] == "environment NEZHA_HOST_ID"
