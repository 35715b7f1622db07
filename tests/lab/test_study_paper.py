"""`nezha study paper` for real and small: two nodes, short operations. Nothing depends on times."""

from __future__ import annotations

from pathlib import Path

import pytest
from paper_study import study


def test_a_short_evaluation_is_kept_and_not_measured_again(namespaces: None, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    words = ["--nodes", "2", "--rate", "200mbit", "-e", "16K", "--seconds", "0.02", "--out",
             str(tmp_path)]
    found = study("--only", "fig5,table2", *words)
    assert list(found["figures"]) == ["fig5", "border", "table2", "fig7"]
    measured = {row["combination"] for row in found["figures"]["fig5"]["curves"]}
    assert {"T", "A", "TT", "TA"} <= measured
    if not found["notes"]:  # every module is there
        assert {"R", "TR", "RA", "TRA"} <= measured
    kept = {path.name: path.stat().st_mtime_ns for path in (tmp_path / "measurements").iterdir()}
    assert len(kept) == len(measured) + 1
    page = (tmp_path / "paper.html").read_text("utf-8")
    assert "Fig. 5" in page and "data:image/png;base64," in page

    again = study("--only", "table1,table2", *words)  # adds the fixed shares, and measures nothing else
    assert list(again["figures"]) == ["fig5", "border", "table1", "table2", "fig7"]
    after = {path.name: path.stat().st_mtime_ns for path in (tmp_path / "measurements").iterdir()}
    assert {name: after[name] for name in kept} == kept and len(after) > len(kept)
