"""What all commands have in common: exit codes, -h, --json, and what the system refuses.

A command belongs to an App. One that runs a program of the user's has the class RunsProgram.
"""

from __future__ import annotations

import os
import sys
from typing import Any, List

import typer
from typer.core import TyperCommand, TyperGroup

from nezha.files import explained

FOUND = 1  # something is wrong, or could not be done
WRONG_LINE = 2  # a bad command line; click's own code
OURS = 125  # Nezha failed, and not the program that it ran: as env(1) has it

_CONTEXT = {"help_option_names": ["-h", "--help"]}


def json_option(help_text: str = "Print JSON on standard output, or write it to FILE.") -> Any:
    """The option --json of a command; its value is None, "-" for standard output, or a file."""
    return typer.Option(None, "--json", metavar="[=FILE]", help=help_text, show_default=False)


def _with_values(words: List[str]) -> List[str]:
    """The words, with "-" behind a --json without FILE: typer has no option whose value may lack."""
    end = words.index("--") if "--" in words else len(words)
    return ["--json=-" if at < end and word == "--json" and words[at + 1:at + 2] != ["-"] else word
            for at, word in enumerate(words)]


def _printed() -> bool:
    """Whether standard output takes what was printed. What it does not take is dropped, because Python
    would try again at its end, and complain."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return False
    return True


class _Common:
    """What commands and groups of them have in common."""

    failure = FOUND  # the exit code where Nezha failed

    def invoke(self, ctx: Any) -> Any:
        """What the system refuses, and nothing in a command expected (no space, no temporary folder, no
        rights, no process), is a line on standard error and an exit code."""
        try:
            try:
                return super().invoke(ctx)  # type: ignore[misc]
            finally:
                sys.stdout.flush()
        except BrokenPipeError:
            raise  # click ends in silence: whoever read has enough
        except OSError as error:
            place = "" if _printed() else "standard output: "
            typer.echo(f"{ctx.command_path}: {place}{explained(error)}", err=True)
            raise typer.Exit(self.failure) from None


class Group(_Common, TyperGroup):
    """A command with commands of its own."""

    def parse_args(self, ctx: Any, args: List[str]) -> List[str]:
        has_json = any("--json" in each.opts for each in self.params)  # else the word is a command's
        return super().parse_args(ctx, _with_values(args) if has_json else args)


class Command(_Common, TyperCommand):
    """A command with the conventions of this module."""

    def parse_args(self, ctx: Any, args: List[str]) -> List[str]:
        ctx.allow_extra_args = True
        super().parse_args(ctx, _with_values(args))
        if ctx.args and "--json" in args and ctx.args == args[args.index("--json") + 1:][:1]:
            ctx.params["json_to"] = ctx.args.pop()  # no argument of the command wants it: it is the FILE
        if ctx.args and not ctx.resilient_parsing:
            plural = "s" if len(ctx.args) > 1 else ""
            ctx.fail(f"Got unexpected extra argument{plural} ({' '.join(ctx.args)})")
        return list(ctx.args)


class RunsProgram(Command):
    """A command whose last words are a program with its options, whose exit code it passes on."""

    failure = OURS

    def parse_args(self, ctx: Any, args: List[str]) -> List[str]:
        own = self._words_before_program(args)
        if own < len(args) and args[own] != "--":
            args = [*args[:own], "--", *args[own:]]
        try:
            return super().parse_args(ctx, args)
        except Exception as error:
            failure: Any = error
            if getattr(failure, "exit_code", None) == WRONG_LINE:
                failure.exit_code = OURS  # 2 may be the program's
            raise

    def _words_before_program(self, words: List[str]) -> int:
        """The number of words up to a "--", or up to the first that is no option or argument of ours."""
        single = sum(each.param_type_name == "argument" and each.nargs == 1 for each in self.params)
        options = [each for each in self.params if not getattr(each, "is_flag", True)]
        valued = {name for each in options for name in each.opts if name != "--json"}  # its is behind "="
        at = 0
        while at < len(words) and words[at] != "--":
            if words[at].startswith("-"):
                at += words[at] in valued
            elif single == 0:
                break
            else:
                single -= 1
            at += 1
        return at


class App(typer.Typer):
    """A typer.Typer whose commands have the conventions of this module."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**{"cls": Group, "rich_markup_mode": None, "add_completion": False,
                            "context_settings": _CONTEXT, **settings})

    def command(self, name: Any = None, **settings: Any) -> Any:
        return super().command(name, **{"cls": Command, "context_settings": _CONTEXT, **settings})
