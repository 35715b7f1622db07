"""What a command may do as a rank of a launched world, and options that mean nothing there.

An option that has no effect is refused: whoever gave it expects one.
"""

from __future__ import annotations

import os
from typing import Dict, Mapping, Optional

import typer

from nezha import launch_environment
from .errors import BenchError
from nezha.errors import InvalidArgument


def launched() -> Optional[launch_environment.Launched]:
    """The rank that a launcher made of this process; None without one. Raises BenchError."""
    try:
        return launch_environment.launched(os.environ)
    except InvalidArgument as error:
        raise BenchError(str(error)) from None


def in_words(world: launch_environment.Launched) -> str:
    """Which rank this is, and which variable says so."""
    return (f"this process is rank {world.rank} of {world.world_size} of a launched world "
            f"({world.variable} is set)")


def refuse_launcher() -> None:
    """For commands that build labs. Raises BenchError in a world of several ranks: each would do so."""
    world = launched()
    if world is not None and world.world_size > 1:
        raise BenchError(f"it builds labs of its own, and {in_words(world)}: every rank would build "
                         "them. Start one process, without a launcher")


def asked(context: typer.Context) -> Dict[str, str]:
    """The options that stand on the command line, by parameter, as they are written: "--no-gain"."""
    found = {}
    for parameter in context.command.params:
        name = parameter.name or ""
        source = context.get_parameter_source(name)
        if source is not None and source.name == "COMMANDLINE":
            off = parameter.secondary_opts and context.params[name] is False
            found[name] = (parameter.secondary_opts if off else parameter.opts)[-1]
    return found


def refuse(options: Mapping[str, str], reasons: Mapping[str, str], where: str) -> None:
    """Raises BenchError for the first of `reasons` (parameter -> why, and what to do instead) that is
    among the options asked for."""
    for name, reason in reasons.items():
        if name in options:
            raise BenchError(f"{options[name]} has no effect {where}: {reason}")
