"""tests/rdma, as far as it runs outside the guest: what it says when it cannot, and that it can fail."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any, Dict, List

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from rdma import __main__ as command
from rdma import guest, requirements

PASSED: Dict[str, Any] = {"passed": True, "seconds": 1.0, "note": "fine"}
ABSENT = requirements.Requirement("nosuch-package", "nosuch-command", "nothing at all")


def call(monkeypatch: pytest.MonkeyPatch, *words: str) -> int:
    """Exit status of `python -m rdma WORDS`."""
    monkeypatch.setattr(sys, "argv", ["rdma", *words])
    return command.main()


def test_a_case_without_a_result_has_failed(capsys: pytest.CaptureFixture[str]) -> None:
    told = {"rails": PASSED}
    assert command.report(["rails"], told, 0)
    assert not command.report(["rails", "raw libfabric"], told, guest.NO_STATUS)
    assert "FAILED    0.0 s  the guest ended early" in capsys.readouterr().out


def test_a_failed_case_fails_all() -> None:
    assert not command.report(["rails", "x"], {"rails": PASSED, "x": {**PASSED, "passed": False}}, 1)


def test_skips_with_what_is_missing(monkeypatch: pytest.MonkeyPatch,
                                    capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(requirements, "REQUIREMENTS", (ABSENT,))
    monkeypatch.setattr(requirements.os, "geteuid", lambda: 1000)
    monkeypatch.setattr(requirements.shutil, "which", lambda name, **_: name == "apt-get" or None)
    assert call(monkeypatch, "test") == command.SKIPPED
    said = capsys.readouterr().out
    assert "nosuch-package for nothing at all" in said and "as root: apt-get install" in said


def test_skips_without_apt(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(requirements, "REQUIREMENTS", (ABSENT,))
    monkeypatch.setattr(requirements.shutil, "which", lambda *_, **__: None)
    assert call(monkeypatch, "test") == command.SKIPPED
    assert "no apt-get" in capsys.readouterr().out


@pytest.mark.parametrize("words, said", [
    (["nosuch case"], "no case nosuch case"), (["--build", "/nosuch"], "not there: /nosuch/")])
def test_refuses_before_it_starts_a_guest(monkeypatch: pytest.MonkeyPatch, words: List[str], said: str,
                                          capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(requirements, "REQUIREMENTS", ())
    monkeypatch.setattr(command, "Guest", None)  # would be an error of its own
    assert call(monkeypatch, "test", *words) in (1, 2)
    assert said in capsys.readouterr().out
