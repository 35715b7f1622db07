"""A pytest plugin: in torchft's tests ProcessGroupGloo becomes ProcessGroupNezha.

Only in the test modules, so that what torchft itself does with Gloo stays as it is.
"""

from __future__ import annotations

import importlib
from typing import Any

import pytest

from nezha.torch.torchft import ProcessGroupNezha

MODULES = ["_test.diloco_trainer", "ddp_test", "local_sgd_integ_test", "manager_integ_test"]


class Counted(ProcessGroupNezha):
    """Counts the groups, so that a run which made none is told from one that passed."""

    made = 0

    def _create_pg(self, *args: Any) -> Any:
        Counted.made += 1
        return super()._create_pg(*args)


@pytest.fixture(autouse=True)
def _nezha_instead_of_gloo(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in MODULES:
        module = importlib.import_module(f"torchft.{name}")
        assert hasattr(module, "ProcessGroupGloo")
        monkeypatch.setattr(module, "ProcessGroupGloo", Counted)


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """Fails a run without groups."""
    if exitstatus == 0 and not Counted.made:
        session.exitstatus = 1


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Says how many groups there were."""
    terminalreporter.write_line(f"{Counted.made} groups of nezha were made")
