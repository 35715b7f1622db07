"""`nezha bench train` where torch is: the models are those of the publications, a replay, a training."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest
import torch

from nezha_tools.bench import training_models, training_steps
from nezha_tools.bench.training_run import MODELS
from nezha_tools.bench.training_spec import Schedule, TrainSpec
from nezha_tools.cli.errors import BenchError

PATIENCE_S = 500
NEZHA = [sys.executable, "-c",
         "import sys; sys.argv[0] = 'nezha'; from nezha_tools.main import main; main()"]


@pytest.mark.parametrize("name", MODELS)
def test_models_have_the_published_number_of_parameters(name):
    with torch.device("meta"):  # shapes without memory
        model = training_models.build(name)
        scores = model(torch.empty(2, *training_models.IMAGE))
    assert sum(parameter.numel() for parameter in model.parameters()) == training_models.PARAMETERS[name]
    assert scores.shape == (2, training_models.CLASSES)


def swapped(buffer):
    """With its first two thousand elements in each other's places."""
    first, second = buffer[:1000].clone(), buffer[1000:2000].clone()
    buffer[:1000], buffer[1000:2000] = second, first


@pytest.mark.parametrize("damage, step", [(lambda buffer: None, None), (swapped, 1), (swapped, 0)])
def test_a_replay_ends_at_a_misplaced_chunk(monkeypatch, damage, step):
    """A world of one, whose sums are what it gave, until the second bucket is damaged in that step."""
    schedule = Schedule("vgg11", 1, None, 1, 8, [], [4000, 12004], [0.0, 0.0], 0.0)
    calls = []

    def all_reduce(buffer, begun, intervals):
        calls.append(buffer)
        intervals.append((begun, begun + 1))
        if step is not None and len(calls) == 2 * step + 2:
            damage(buffer)
        done = torch.futures.Future()
        done.set_result(buffer)
        return done

    monkeypatch.setattr(training_steps, "_all_reduce", all_reduce)
    for name, value in (("get_rank", 0), ("get_world_size", 1), ("barrier", None)):
        monkeypatch.setattr(training_steps.dist, name, lambda value=value: value)
    steps = training_steps.replay(TrainSpec("replay", "vgg11", 1, 2), schedule)
    if step is None:
        assert [each.wrong for each in steps] == [0, 0, 0]
        return
    # By chance an element may be the other's: one in a million.
    said = ("rank 0: (2000|199[5-9]) of 3001 ELEMENTS WRONG after the all_reduce of step "
            f"{step}, bucket 1, ")
    with pytest.raises(BenchError, match=said):
        list(steps)
    assert len(calls) == 2 * step + 2


@pytest.mark.parametrize("change, wrong", [
    (lambda sums: sums, 0), (lambda sums: sums * (1 + 2.0 ** -24), 0), (lambda sums: sums.roll(1), 1000),
    (lambda sums: torch.cat((sums[:7], sums[7:8] * 1.001, sums[8:])), 1),
    (lambda sums: sums * 1.25, 1000)])
def test_sums_of_a_training_are_compared_with_what_was_given(monkeypatch, change, wrong):
    torch.manual_seed(1)
    gathered = [torch.randn(1000) for _ in range(4)]
    monkeypatch.setattr(training_steps.dist, "get_world_size", lambda: 4)
    monkeypatch.setattr(training_steps.dist, "all_gather", lambda parts, part: [
        here.copy_(there) for here, there in zip(parts, gathered)])
    sums = gathered[0] + gathered[1] + gathered[2] + gathered[3]
    found = training_steps.count_wrong_sums(gathered[0], change(sums))
    assert found == wrong if wrong < 1000 else found > 990


def test_ranks_whose_parameters_differ_in_order_only_differ(monkeypatch):
    mine = [torch.arange(9.0), torch.arange(5.0)]
    dist = training_steps.dist
    for theirs, different in ((mine, 0), ([mine[0].flip(0), mine[1]], 1), ([mine[0], mine[1] + 1], 1)):
        seen = []
        monkeypatch.setattr(dist, "all_reduce", lambda tensor, op, seen=seen: seen.append(tensor))
        training_steps._different(theirs)

        def reduce(tensor, op, other=seen[0]):
            least = op == dist.ReduceOp.MIN
            tensor.copy_((torch.minimum if least else torch.maximum)(tensor, other))

        monkeypatch.setattr(dist, "all_reduce", reduce)
        assert training_steps._different(mine) == different


def bench(environment, *arguments):
    """The document of a bench that must succeed, and what it showed."""
    done = subprocess.run([*NEZHA, "bench", "train", *[str(part) for part in arguments]], text=True,
                          capture_output=True, timeout=PATIENCE_S, env={**os.environ, **environment})
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
    return done.stdout


@pytest.fixture
def common(tmp_path):
    """Options of a small bench, whose document goes to the last of them."""
    return ["--model", "resnet50", "--batch", 2, "--nodes", 2, "--steps", 2,
            "--schedule", tmp_path / "schedule.json", "--json", tmp_path / "result.json"]


@pytest.mark.long
def test_replay(environment, common):
    result = common[-1]
    shown = bench(environment, *common, "--replay", "--compute-scale", 0.1, "--rates", "2gbit,2gbit")
    assert "REPLAY" in shown
    found = json.loads(result.read_text())
    gradients = 4 * training_models.PARAMETERS["resnet50"]
    assert sum(found["schedule"]["buckets"]) == sum(found["schedule"]["tensors"]) == gradients
    assert len(found["schedule"]["buckets"]) == sum(line["all_reduces"] for line in found["profile"])
    # DDP's first bucket closes after 1 MB, so that sending begins early; the others after 25.
    first, *others = found["schedule"]["buckets"]
    assert len(others) >= 3 and first < 10e6 < 20e6 < max(others)
    names = [entry["name"] for entry in found["configurations"]]
    assert names == ["gloo, 2gbit", "nezha, 2gbit", "nezha, 2gbit + 2gbit"]
    for entry in found["configurations"]:
        assert entry["wrong"] == 0 and len(entry["steps"]) == 2
        assert 0 < entry["waiting_s"] <= entry["step_s"]
        assert 0 < entry["communication_s"] <= entry["step_s"]
        for step in entry["steps"]:  # two ranks: each sends all gradients once, and little else
            assert gradients < sum(step["sent"].values()) / 2 < 1.2 * gradients or not step["sent"]


@pytest.mark.long
def test_training(environment, common):
    result = common[-1]
    shown = bench(environment, *common, "--rates", "none", "--no-gloo")
    assert "DDP: the real training" in shown
    entry, = json.loads(result.read_text())["configurations"]
    assert entry["wrong"] == 0 and entry["communication_s"] > 0


@pytest.mark.long
def test_replay_by_host_and_flat(environment, common):
    result = common[-1]
    bench(environment, *common, "--replay", "--compute-scale", 0, "--rates", "2gbit", "--no-gloo",
          "--steps", 1, "--ranks-per-node", 2, "--flat")
    by_host, flat = json.loads(result.read_text())["configurations"]
    assert [entry["name"] for entry in (by_host, flat)] == ["nezha, 2gbit, by host", "nezha, 2gbit, flat"]
    assert "hierarchical" in by_host["algorithms"]
    assert flat["algorithms"] and not {"hierarchical", "leaders"} & set(flat["algorithms"])
    assert all(entry["wrong"] == 0 and len(entry["steps"]) == 2 for entry in (by_host, flat))
