"""What all commands have in common: exit codes, -h, --json, old spellings, and what the system refuses.

A command belongs to an App. One that runs a program of the user's has the class RunsProgram.
"""

from __future__ import annotations

import os
import sys
from contextlib import contextmanager
from typing import Any, Dict, Iterator, List, Tuple

import typer
from typer.core import TyperCommand, TyperGroup

from nezha.files import explained

FOUND = 1  # something is wrong, or could not be done
WRONG_LINE = 2  # a bad command line; click's own code
OURS = 125  # Nezha failed, and not the program that it ran: as env(1) has it

# Old spellings that keep working, with a warning, in commands that have the new option and not the old.
_RENAMED = {"--rails": "--rates"}

# Typer brings its own click, or takes the installed one, and does not export this class of it.
_UsageError: Any = typer.BadParameter.__mro__[1]


def json_option(help_text: str = "Print JSON on standard output, or write it to FILE.") -> Any:
    """The option --json of a command; its value is None, "-" for standard output, or a file."""
    return typer.Option(None, "--json", metavar="[=FILE]", help=help_text, show_default=False)


def _rewritten(ctx: Any, words: List[str]) -> List[str]:
    """A command's words as click takes them: today's spellings, and a value behind --json.

    The word after --json is its FILE where no other word can stand there; otherwise FILE takes a "=".
    """
    command, rest, result, seen = ctx.command, list(words), [], 0
    options = {name: each for each in command.params if each.param_type_name == "option"
               for name in each.opts}
    single, any_number = _words_expected(command)
    while rest:
        word = rest.pop(0)
        name = word.partition("=")[0]
        if word == "--":
            return [*result, word, *rest]
        if not word.startswith("-") or word == "-":
            if command.runs_program and seen == single:
                return [*result, "--", word, *rest]
            seen += 1
            result.append(word)
            if isinstance(command, TyperGroup):
                return result + rest
            continue
        if name in _RENAMED and name not in options and _RENAMED[name] in options:
            _warn(ctx, f"{name} is now {_RENAMED[name]}; the next version will not know the old spelling")
            word = _RENAMED[name] + word[len(name):]
            name = _RENAMED[name]
        if word == "--json" and word in options:
            word = _json_word(ctx, rest, any_number or seen < single)
        result.append(word)
        if word == name and name in options and not options[name].is_flag and rest:
            result.append(rest.pop(0))
    return result


def _words_expected(command: Any) -> Tuple[int, bool]:
    """How many words a command has that are no options, and whether any number may follow them."""
    arguments = [each for each in command.params if each.param_type_name == "argument"]
    return (sum(each.nargs == 1 for each in arguments),
            isinstance(command, TyperGroup) or any(each.nargs == -1 for each in arguments))


def _json_word(ctx: Any, rest: List[str], others_may_follow: bool) -> str:
    """--json with its value, which is taken from `rest` where it stands there."""
    if rest[:1] == ["-"]:
        return "--json=" + rest.pop(0)
    is_followed = bool(rest) and not rest[0].startswith("-")
    if is_followed and ctx.command.json_took_a_word:
        _warn(ctx, f"write --json={rest[0]}; with a space it will not be a file in the next version")
    elif not is_followed or others_may_follow:
        return "--json=-"
    return "--json=" + rest.pop(0)


def _warn(ctx: Any, text: str) -> None:
    if not ctx.resilient_parsing:  # nothing between the suggestions of a shell's completion
        typer.echo(f"{ctx.command_path}: {text}", err=True)


@contextmanager
def _refusals_as_a_sentence(ctx: Any) -> Iterator[None]:
    """What the system refuses a command, and nothing in it expected (no space, no temporary folder, no
    rights, no process), is a line on standard error and an exit code."""
    try:
        try:
            yield
        finally:
            sys.stdout.flush()
    except BrokenPipeError:
        raise  # click ends in silence: whoever read has enough
    except OSError as error:
        place = "" if _printed() else "standard output: "
        typer.echo(f"{ctx.command_path}: {place}{explained(error)}", err=True)
        raise typer.Exit(OURS if ctx.command.runs_program else FOUND) from None


def _printed() -> bool:
    """Whether standard output takes what was printed. What it does not take is dropped, because Python
    would try again at its end, and complain."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return False
    return True


class Command(TyperCommand):
    """A command with the conventions of this module."""

    runs_program = False
    json_took_a_word = False  # --json FILE was the way before, though other words can stand there

    def parse_args(self, ctx: Any, args: List[str]) -> List[str]:
        return super().parse_args(ctx, _rewritten(ctx, args))

    def invoke(self, ctx: Any) -> Any:
        with _refusals_as_a_sentence(ctx):
            return super().invoke(ctx)


class RunsProgram(Command):
    """A command whose last words are a program with its options, whose exit code it passes on."""

    runs_program = True

    def parse_args(self, ctx: Any, args: List[str]) -> List[str]:
        try:
            return super().parse_args(ctx, args)
        except _UsageError as error:
            error.exit_code = OURS  # 2 may be the program's
            raise


class Group(TyperGroup):
    """A command with commands of its own."""

    runs_program = False
    json_took_a_word = False

    def parse_args(self, ctx: Any, args: List[str]) -> List[str]:
        return super().parse_args(ctx, _rewritten(ctx, args))

    def invoke(self, ctx: Any) -> Any:
        with _refusals_as_a_sentence(ctx):
            return super().invoke(ctx)


class App(typer.Typer):
    """A typer.Typer whose commands have the conventions of this module."""

    def __init__(self, **settings: Any) -> None:
        given: Dict[str, Any] = {"cls": Group, "rich_markup_mode": None, "add_completion": False,
                                 "context_settings": {"help_option_names": ["-h", "--help"]}}
        super().__init__(**{**given, **settings})

    def command(self, name: Any = None, **settings: Any) -> Any:
        given = {"cls": Command, "context_settings": {"help_option_names": ["-h", "--help"]}}
        return super().command(name, **{**given, **settings})
