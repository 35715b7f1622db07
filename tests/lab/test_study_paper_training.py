"""Training in `nezha study paper`, for real and small: two nodes, short steps."""

from __future__ import annotations

from pathlib import Path

import pytest
from paper_study import study


def test_trainings_are_measured_and_recorded(namespaces: None, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    found = study("--only", "fig9,fig10,table4", "--nodes", "2", "--rate", "200mbit", "-e", "16K",
                  "--seconds", "0.02", "--out", str(tmp_path))
    figures = found["figures"]
    assert list(figures) == ["fig8", "fig9", "fig10", "table4"][-len(figures):]
    # As many all_reduces as the models have tensors, in full size.
    recorded = figures["fig9"]["counts"]
    assert {model: sum(counts.values()) for model, counts in recorded.items()} == {"Alex": 16, "VGG": 22}
    assert recorded["VGG"][str(512 << 20)] == 1  # its largest gradient has 392 MiB
    assert {"T", "A", "TT", "TA", "TT 99:1", "TA 1:99"} <= set(figures["fig10"]["seconds"])
    ratios = figures["table4"]["ratios"]
    assert len(ratios) == 6 * 4 and all(row["ratio"] > 0 for row in ratios)
    page = (tmp_path / "paper.html").read_text("utf-8")
    assert "G2N3" in page and "319 (1.48)" not in page  # the paper has no numbers of two nodes
