"""DDP, FSDP2, checkpoints and functional collectives; the cases are in cases_training.py."""

from __future__ import annotations

import pytest


@pytest.mark.parametrize("case", ["ddp", "functional"])
def test_training(ranks, case):
    ranks.run("cases_training", case)


@pytest.mark.parametrize("case", ["hook_with_communicator", "fsdp2"])
def test_training_with_files(ranks, case, tmp_path):
    ranks.run("cases_training", case, str(tmp_path / "shared"))
