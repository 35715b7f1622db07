"""What commands write: tables, sentences and JSON on standard output, errors on standard error.

A terminal gets tables that fit into its width: columns that find no room follow below, each time with
the key columns in front. A pipe and a file have no width, so nothing is wrapped there.
"""

from __future__ import annotations

import json
import re
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Callable, Dict, Iterable, Iterator, List, Mapping, Optional, Sequence, Type

import typer

from nezha.files import explained
from nezha.files import led_to, whole_file

_UNLIMITED = 100_000  # columns of what is no terminal
_WRAPS_FROM = 20  # a column of sentences may be made this narrow, not narrower
_GAP = 3  # between two columns
_NUMBER = re.compile(r"[-+]?(\d+(\.\d+)?)?( ?[%x]| [num]?s)?")


class OutputError(RuntimeError):
    """What was asked for could not be written; the message names the file."""


# ---- errors ----------------------------------------------------------------------------------


def complain(command: str, what: object) -> None:
    """Says on standard error what is wrong, behind the command's name."""
    typer.echo(f"nezha {command}: {what}", err=True)


@contextmanager
def one_line(command: str, *kinds: Type[BaseException], code: int) -> Iterator[None]:
    """Turns exceptions of these kinds into a line on standard error and an exit code."""
    try:
        yield
    except (OutputError, *kinds) as error:
        complain(command, error)
        raise typer.Exit(code) from None


# ---- JSON ------------------------------------------------------------------------------------


def write_json(document: Any, target: str) -> None:
    """Writes `document` to the file `target`, or to standard output for "-". Raises OutputError."""
    text = json.dumps(document, indent=1)
    if target == "-":
        print(text, flush=True)
    else:
        _write(target, text + "\n", "w")


def write_json_line(document: Any, target: str, first: bool) -> None:
    """The same as one line of several; the first one replaces what the file had."""
    text = json.dumps(document)
    if target == "-":
        print(text, flush=True)
    else:
        _write(target, text + "\n", "w" if first else "a")


def _write(target: str, text: str, mode: str) -> None:
    try:
        if mode == "w":
            with whole_file(Path(target)) as place:
                place.write_text(text, encoding="utf-8")
        else:
            with open(led_to(Path(target)), mode, encoding="utf-8") as file:
                file.write(text)
    except OSError as error:
        raise OutputError(f"cannot write {target}: {explained(error)}") from error


def answer(document: Any, json_to: Optional[str], show: Callable[[Any], None]) -> None:
    """Hands out `document` as --json asks: as JSON alone on standard output, or shown to people, and as
    JSON in a file where one is named. Raises OutputError."""
    if json_to is not None:
        write_json(document, json_to)
    if json_to != "-":
        show(document)


# ---- for people ------------------------------------------------------------------------------


def terminal(stderr: bool = False) -> Any:
    """The rich Console of standard output, or of standard error. Texts are printed as they are."""
    from rich.console import Console

    is_terminal = (sys.stderr if stderr else sys.stdout).isatty()
    return Console(stderr=stderr, width=None if is_terminal else _UNLIMITED, highlight=False,
                   markup=False)


def sentences(texts: Iterable[str]) -> None:
    """Prints texts, a line each, wrapped by the terminal and not before."""
    for text in texts:
        terminal().print(text, soft_wrap=True)


def table(headings: Sequence[str], cells: Sequence[Sequence[str]], title: str = "", keys: int = 1,
          marked: Sequence[bool] = ()) -> None:
    """Prints a table. keys: so many columns tell the rows apart, and stand in front wherever the table
    has to be continued below; marked: the rows to be looked at."""
    screen = terminal()
    if title:
        screen.print(title, style="bold", soft_wrap=True)
    for number, columns in enumerate(_columns_that_fit(headings, cells, keys, screen.width)):
        if number:
            print()
        screen.print(_table(headings, cells, columns, marked))


def commented_table(headings: Sequence[str], cells: Sequence[Sequence[str]],
                    marked: Sequence[bool] = ()) -> None:
    """The same; where it is no terminal in nccl-tests' form: aligned text, the headings as comments."""
    if sys.stdout.isatty():
        table(headings, cells, marked=marked)
        return
    titles = [heading.split("\n") for heading in headings]
    above = [[title[line] if line < len(title) else "" for title in titles]
             for line in range(max(map(len, titles)))]
    columns = list(zip(*above, *cells))
    widths = [max(map(len, column)) for column in columns]
    right = [_is_right(column[len(above):]) for column in columns]
    for number, row in enumerate([*above, *cells]):
        texts = [text.rjust(width) if to_the_right else text.ljust(width)
                 for text, width, to_the_right in zip(row, widths, right)]
        print(("# " if number < len(above) else "  ") + "  ".join(texts).rstrip())
    sys.stdout.flush()


def _is_right(texts: Sequence[str]) -> bool:
    """Whether a column has numbers, which stand to the right."""
    return any(texts) and all(map(_NUMBER.fullmatch, texts))


def fields(title: str, values: Mapping[str, str]) -> None:
    """Prints names with their values, a line each."""
    from rich.table import Table

    screen = terminal()
    screen.print(title, style="bold", soft_wrap=True)
    shown = Table.grid(padding=(0, 2))
    shown.add_column(no_wrap=True)
    shown.add_column(overflow="fold")
    for name, value in values.items():
        shown.add_row(f" {name}", value)
    screen.print(shown)


def _columns_that_fit(headings: Sequence[str], cells: Sequence[Sequence[str]], keys: int,
                      width: int) -> List[List[int]]:
    least = [_least_width([heading, *(row[index] for row in cells)])
             for index, heading in enumerate(headings)]

    def fit(columns: Sequence[int]) -> bool:
        return sum(least[each] + _GAP for each in columns) <= width

    groups = []
    current = list(range(keys))
    for index in range(keys, len(headings)):
        if current[-1] >= keys and not fit([*current, index]):
            groups.append(current)
            current = list(range(keys))
        current.append(index)
        while len(current) > 2 and not fit(current):
            del current[-2]  # no room for so many keys beside this column
    return [*groups, current]


def _least_width(texts: Sequence[str]) -> int:
    """Columns that a column of a table needs: words stay whole, and so does a text of a few words."""
    from rich.cells import cell_len

    lines = [line for text in texts for line in text.split("\n")]
    widest = max(map(cell_len, lines))
    if widest <= _WRAPS_FROM:
        return widest
    return max(_WRAPS_FROM, *(cell_len(word) for line in lines for word in line.split()))


def _table(headings: Sequence[str], cells: Sequence[Sequence[str]], columns: Sequence[int],
           marked: Sequence[bool]) -> Any:
    from rich import box
    from rich.table import Table

    shown = Table(box=box.SIMPLE_HEAD, show_edge=False, padding=(0, _GAP - 1, 0, 0), header_style="bold")
    for index in columns:
        texts = [row[index] for row in cells]
        shown.add_column(
            headings[index], overflow="fold", vertical="top",
            justify="right" if _is_right(texts) else "left",
            min_width=_least_width([headings[index], *texts]))
    for number, row in enumerate(cells):
        style = "bold red" if number < len(marked) and marked[number] else None
        shown.add_row(*(row[index] for index in columns), style=style)
    return shown


# ---- answers of the library, of any form -------------------------------------------------------


def section(title: str, value: Any, keys: int = 1) -> None:
    """Prints a value under a title: lists of objects as tables (keys: see there), objects as names and
    values."""
    if isinstance(value, list) and value and all(isinstance(row, dict) for row in value):
        columns = list(dict.fromkeys(name for row in value for name in row))
        table([column.replace("_", " ") for column in columns],
              [[text_of(row.get(column)) for column in columns] for row in value], title, keys)
        print()
    elif isinstance(value, dict):
        _object(title, value)
    elif isinstance(value, str) and "\n" in value:
        sentences([title, value])
    elif value not in ([], {}):
        sentences([f"{title}: {text_of(value)}"])


def _object(title: str, value: Dict[str, Any]) -> None:
    large = {name: each for name, each in value.items() if _is_large(each)}
    if len(large) < len(value):
        fields(title, {name.replace("_", " "): text_of(each) for name, each in value.items()
                       if name not in large})
    for name, each in large.items():
        section(name, each)


def _is_large(value: Any) -> bool:
    return (isinstance(value, dict) or isinstance(value, list) and any(
        isinstance(each, dict) for each in value) or isinstance(value, str) and "\n" in value)


def text_of(value: Any) -> str:
    """One cell: yes and no, nothing for null, lists with commas."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:g}"
    if isinstance(value, (list, tuple)):
        return ", ".join(text_of(each) for each in value)
    if isinstance(value, dict):
        return ", ".join(f"{name}: {text_of(each)}" for name, each in value.items())
    return str(value)
