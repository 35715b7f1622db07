"""`nezha bench train` where torch is: the models are those of the publications, a replay, a training."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest
import torch

from nezha._bench import training_models
from nezha._bench.training_run import MODELS

PATIENCE_S = 500
NEZHA = [sys.executable, "-c", "import sys; sys.argv[0] = 'nezha'; from nezha._cli import main; main()"]


@pytest.mark.parametrize("name", MODELS)
def test_models_have_the_published_number_of_parameters(name):
    with torch.device("meta"):  # shapes without memory
        model = training_models.build(name)
        scores = model(torch.empty(2, *training_models.IMAGE))
    assert sum(parameter.numel() for parameter in model.parameters()) == training_models.PARAMETERS[name]
    assert scores.shape == (2, training_models.CLASSES)


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
