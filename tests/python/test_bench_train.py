"""The training bench's arithmetic: profiles, unions of intervals, summaries, schedules on disk."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from nezha_tools.cli.errors import BenchError
from nezha_tools.bench import training_report
from nezha_tools.bench.training_profile import profile, size_class, union_seconds
from nezha_tools.bench.training_run import Request, compare, summary
from nezha_tools.bench.training_spec import Schedule, Step

MB = 1 << 20


def schedule(**changes) -> Schedule:
    """Two buckets and four gradients."""
    given = {"model": "vgg11", "batch": 32, "bucket_mb": 25.0, "threads": 1, "parameters": 3,
             "tensors": [8, 4], "buckets": [4 * MB, 9 * MB], "gaps_s": [0.5, 0.25], "tail_s": 0.25}
    return Schedule(**{**given, **changes})


@pytest.mark.parametrize("size, expected", [
    (0, (0, 4096)), (4095, (0, 4096)), (4096, (4096, 8192)), (8191, (4096, 8192)),
    (MB, (MB, 2 * MB)), (2 * MB - 1, (MB, 2 * MB))])
def test_size_classes_are_powers_of_two(size, expected):
    assert size_class(size) == expected


def test_no_size_is_negative():
    with pytest.raises(ValueError, match="-1"):
        size_class(-1)


def test_profile_counts_operations_and_gradients():
    lines = profile([MB, MB + 4, 30 * MB], [100, 200, 30 * MB])
    assert [line["class"] for line in lines] == ["< 4K", "1M..2M", "16M..32M"]
    assert [line["all_reduces"] for line in lines] == [0, 2, 1]
    assert [line["tensors"] for line in lines] == [2, 0, 1]
    assert [line["bytes"] for line in lines] == [0, 2 * MB + 4, 30 * MB]
    assert sum(line["share"] for line in lines) == pytest.approx(1)


@pytest.mark.parametrize("intervals, expected", [
    ([], 0), ([(1, 2)], 1), ([(1, 3), (2, 4)], 3), ([(5, 6), (1, 2)], 2), ([(0, 9), (2, 3)], 9),
    ([(1, 2), (2, 3)], 2)])
def test_time_in_communication_counts_no_moment_twice(intervals, expected):
    assert union_seconds(intervals) == expected


def test_summary_takes_medians_and_shares():
    steps = [Step(1.0, 0.5, 0.1, 0, {"a": 10, "b": 30}), Step(2.0, 1.0, 0.5, 0, {"a": 10, "b": 30}),
             Step(9.0, 9.0, 9.0, 2, {"a": 0, "b": 0})]
    found = summary(steps, 64)
    assert found["images_per_s"] == 32 and found["step_s"] == 2.0
    assert found["communication_share"] == 0.5 and found["waiting_share"] == 0.25
    assert found["rails_share"] == {"a": 0.25, "b": 0.75}
    assert found["wrong"] == 2


def test_ratios_are_to_the_first_configuration():
    entries = [summary([Step(2.0, 1.0, 0.0, 0)], 1), summary([Step(1.0, 0.25, 0.0, 0)], 1)]
    compare(entries)
    assert [entry["speedup"] for entry in entries] == [1, 2]
    assert [entry["communication_ratio"] for entry in entries] == [1, 0.25]


def test_steps_cross_between_processes(capsys):
    step = Step(1.5, 0.5, 0.25, 0, {"eth0": 7})
    step.emit()
    assert Step.parse([b"a log", *capsys.readouterr().out.encode().splitlines()]) == [step]


def test_schedule_on_disk(tmp_path):
    path = tmp_path / "there" / "schedule.json"
    schedule().save(path)
    assert Schedule.load(path) == schedule()
    assert sum(schedule().gaps_s) + schedule().tail_s == 1.0
    scaled = schedule().scaled(0.5)
    assert sum(scaled.gaps_s) + scaled.tail_s == 0.5 and scaled.buckets == schedule().buckets


@pytest.mark.parametrize("text", [
    "", "[]", "{}", '{"model": 1}', json.dumps({**schedule().__dict__, "gaps_s": [1.0]}),
    json.dumps({**schedule().__dict__, "tail_s": -1}),
    json.dumps({**schedule().__dict__, "buckets": ["many", "more"]})])
def test_what_is_no_schedule_is_refused(tmp_path, text):
    path = tmp_path / "schedule.json"
    path.write_text(text)
    with pytest.raises(BenchError, match="holds no schedule"):
        Schedule.load(path)


@pytest.mark.parametrize("changes, words", [
    ({"model": "lenet"}, "resnet152"), ({"compute_scale": -1.0, "replay": True}, "factor"),
    ({"compute_scale": 2.0}, "--replay"), ({"bucket_mb": 0.0}, "more than 0"),
    ({"flat": True}, "--ranks-per-node")])
def test_requests_that_cannot_be_run(changes, words):
    with pytest.raises(BenchError, match=words):
        Request(**{"model": "alexnet", **changes})


def test_without_torch_one_sentence_says_so(monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(BenchError, match="pip install torch"):
        Request("alexnet")


def document(mode: str) -> dict:
    """As session.run() returns it."""
    found = summary([Step(2.0, 1.0, 0.5, 0, {"a": 1})], 64)
    entries = [{"name": name, "backend": name, "form": "", **found}
               for name in ("gloo", "nezha")]
    compare(entries)
    lab = {"mode": "root", "shaped": True, "shaping": "bulk", "queue_ms": 10, "burst_bytes": [1],
           "congestion_control": "cubic", "mtu": [1500]}
    config = {"mode": mode, "model": "vgg11", "batch": 32, "nodes": 2, "ranks": 4, "threads": 1,
              "cpus": 2, "compute_scale": 0.5 if mode == "replay" else 1.0, "bucket_mb": 25.0, "lab": lab}
    return {"config": config, "schedule": schedule().__dict__, "configurations": entries,
            "profile": profile(schedule().buckets, schedule().tensors)}


def test_the_report_says_what_was_run(capsys):
    shown = []
    for mode in ("ddp", "replay"):
        training_report.show(document(mode))
        shown.append(capsys.readouterr().out)
    real, replayed = shown
    assert "# DDP: the real training" in real and "REPLAY" not in real
    assert "# REPLAY, not training" in replayed and "slept 0.5 times that" in replayed
    for text in (real, replayed):
        assert "8M..16M" in text and "32.0" in text and "Wrong elements: 0 OK" in text


def test_forms_that_were_launched_in_turn_are_compared(capsys):
    shown = document("replay")
    by_host, flat = shown["configurations"]
    by_host |= {"form": "by host", "rails": ["1gbit"], "algorithms": ["hierarchical", "leaders"]}
    flat |= {"form": "flat", "algorithms": ["ring"], "communication_s": 3.0, "step_s": 4.0}
    training_report.show(shown)
    assert ("# 1gbit: by host (hierarchical, leaders) communication takes 1/3.00 of flat (ring), a step "
            "1/2.00" in capsys.readouterr().out)


def test_wrong_results_fail(capsys):
    bad = document("ddp")
    assert training_report.publish(bad, None, None) == 0
    bad["configurations"][0]["wrong"] = 1
    assert training_report.publish(bad, None, None) == 1
    assert "FAILED" in capsys.readouterr().out


def test_the_picture(tmp_path):
    pytest.importorskip("matplotlib")
    training_report.plot(document("replay"), tmp_path / "new" / "train.png")
    assert (tmp_path / "new" / "train.png").stat().st_size > 10_000


@pytest.mark.parametrize("arguments, words", [
    (["--model", "lenet"], "lenet"), (["--model", "alexnet", "--rates", "fast"], "fast")])
def test_the_command_refuses_in_one_sentence(arguments, words):
    code = "import sys; sys.argv[0] = 'nezha'; from nezha_tools.main import main; main()"
    done = subprocess.run([sys.executable, "-c", code, "bench", "train", *arguments], text=True,
                          capture_output=True, timeout=120)
    assert done.returncode == 2 and words in done.stderr or "pip install torch" in done.stderr
    assert "Traceback" not in done.stderr
