"""How a command of `nezha plan` ends: with its answer, or with a sentence."""

from __future__ import annotations

from typing import Any, Callable, ContextManager, Optional

from nezha_tools.cli import console
from nezha_tools.cli.conventions import FOUND, WRONG_LINE
from nezha_tools.cli.errors import BenchError, PlanError


def one_sentence(command: str, code: int = WRONG_LINE) -> ContextManager[None]:
    """Turns errors of planning into a sentence on standard error and an exit code."""
    return console.one_line(f"plan {command}", PlanError, BenchError, ValueError, code=code)


def answer(command: str, document: Any, json_to: Optional[str], show: Callable[[Any], None]) -> None:
    """Hands out what a command has found, as --json asks."""
    with one_sentence(command, FOUND):
        console.answer(document, json_to, show)
