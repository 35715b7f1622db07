"""JSON answers of the library as tables for people."""

from __future__ import annotations

import sys
from typing import Any, Dict, Iterable, List

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table


def _console() -> Console:
    return Console(width=None if sys.stdout.isatty() else 160, highlight=False)


def section(title: str, value: Any) -> None:
    """Prints a value under a title: lists of objects as tables, objects as name and value."""
    if isinstance(value, list) and value and all(isinstance(row, dict) for row in value):
        _rows(title, value)
    elif isinstance(value, dict):
        _fields(title, value)
    elif isinstance(value, str) and "\n" in value:
        _console().print(f"[bold]{escape(title)}[/bold]\n{escape(value)}")
    elif value not in ([], {}):
        _console().print(f"[bold]{escape(title)}[/bold]: {escape(text_of(value))}")


def sentences(texts: Iterable[str]) -> None:
    """Prints texts, a line each, wrapped by the terminal and not before."""
    for text in texts:
        _console().print(escape(text), soft_wrap=True)


def _rows(title: str, rows: List[Dict[str, Any]]) -> None:
    columns = list(dict.fromkeys(name for row in rows for name in row))
    table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD)
    for column in columns:
        table.add_column(column.replace("_", " "), overflow="fold")
    for row in rows:
        table.add_row(*(escape(text_of(row.get(column))) for column in columns))
    _console().print(table)


def _fields(title: str, value: Dict[str, Any]) -> None:
    plain = {name: each for name, each in value.items() if not _is_large(each)}
    if plain:
        table = Table(title=title, title_justify="left", box=None, show_header=False)
        for name, each in plain.items():
            table.add_row(escape(name.replace("_", " ")), escape(text_of(each)))
        _console().print(table)
    for name, each in value.items():
        if name not in plain:
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
