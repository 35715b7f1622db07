"""What every command of `nezha bench` does: reads its line, measures, hands out the result, and ends."""

from __future__ import annotations

from functools import partial
from typing import Any, Callable, Optional, TypeVar

import typer

from ..cli import console
from ..cli.conventions import FOUND, WRONG_LINE
from ..cli.errors import BenchError
from ..cli.launched import asked, in_words, launched, refuse, refuse_launcher
from ..cli.progress import Step, progress
from nezha.errors import Error
from ..lab import LabError

_Request = TypeVar("_Request")


def perform(command: str, prepare: Callable[[], Callable[[Step], Any]],
            publish: Callable[[Any], int]) -> None:
    """Ends with publish()'s exit code, or with that of a failure.

    prepare: reads the command line, and returns what measures; a failure is one of the line. What is
    measured is None on ranks that publish nothing.
    """
    expected = (BenchError, LabError, Error, ValueError)
    with console.one_line(command, *expected, code=WRONG_LINE):
        measure = prepare()
    with console.one_line(command, *expected, code=FOUND):
        with progress() as step:
            document = measure(step)
        status = 0 if document is None else publish(document)
    raise typer.Exit(status)


def perform_in_labs(command: str, request: Callable[[], _Request],
                    run: Callable[[_Request, Step], Any], publish: Callable[[Any], int]) -> None:
    """The same for a command that builds labs, and so belongs to no launched world."""
    def prepare() -> Callable[[Step], Any]:
        refuse_launcher()
        return partial(run, request())

    perform(command, prepare, publish)


def builds_lab(context: typer.Context, nodes: Optional[int]) -> bool:
    """Whether a command builds a lab, and does not measure in the world that it was launched in: outside
    of one, and as its only rank where --nodes was given. BenchError in a world for options of labs."""
    world = launched()
    if world is None or (world.world_size == 1 and nodes is not None):
        return True
    why = "the rails between the launched ranks are measured; start it without a launcher for a lab"
    refuse(asked(context), {"nodes": why, "rates_text": why}, f"here, {in_words(world)}")
    return False
