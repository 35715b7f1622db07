"""The result: one page of HTML that holds its pictures, and one of Markdown with pictures beside it."""

from __future__ import annotations

import base64
import html
from pathlib import Path
from typing import Any, Dict, List, Sequence

from nezha.files import explained, whole_file
from nezha_tools.cli import figures
from nezha_tools.cli.errors import BenchError
from .context import Context
from .published import data
from .section import Section, Table

_TITLE = "The Nezha paper's evaluation, repeated on this machine"
_CLAIMS = ["the paper", "place", "measured here", "verdict"]
_STYLE = ("body{font-family:sans-serif;max-width:75em;margin:2em auto;padding:0 1em;line-height:1.4}"
          "table{border-collapse:collapse;margin:1em 0;font-size:.9em}"
          "th,td{border:1px solid #ccc;padding:.25em .6em;text-align:left}th{background:#f2f2f2}"
          "img{max-width:100%}.note{color:#a00}")


def check_drawing() -> None:
    """Raises BenchError where pictures cannot be drawn, before anything is measured."""
    try:
        figures.drawing()
    except BenchError as error:
        raise BenchError("the pictures need matplotlib: pip install matplotlib") from error


def write(folder: Path, sections: Sequence[Section], context: Context,
          notes: Sequence[str]) -> List[Path]:
    """Writes `paper.html`, `paper.md` and a picture for each section into `folder`. The paths of both
    pages. Raises BenchError where one cannot be written."""
    pictures = {each.key: _picture(each, folder / f"{each.key}.png") for each in sections}
    texts = {"paper.html": _html(sections, context, notes, pictures),
             "paper.md": _markdown(sections, context, notes)}
    for name, text in texts.items():
        path = folder / name
        try:
            with whole_file(path) as place:
                place.write_text(text, encoding="utf-8")
        except OSError as error:
            raise BenchError(f"cannot write {path}: {explained(error)}") from error
    return [folder / name for name in texts]


def _picture(section: Section, path: Path) -> bytes:
    """Draws the picture into the file; its bytes."""
    figures.write(section.draw(figures.drawing()), path)
    try:
        return path.read_bytes()
    except OSError as error:
        raise BenchError(f"cannot read {path}: {explained(error)}") from error


def _introduction(context: Context) -> List[str]:
    return [f"Beside: {data()['source']}. {context.differs}",
            "T, R and A stand for TCP, RDMA (the paper's GLEX) and aggregation (the paper's SHARP). "
            "Every result was compared with an exact reference, and no element was wrong.",
            "A sign agrees where both are a gain, or both none; an order agrees where everything that "
            "the paper's values order by more than 5 % has the same order here."]


def _claim_rows(section: Section) -> List[List[str]]:
    return [[each.says, each.place, each.found, each.verdict] for each in section.claims]


# ---- Markdown


def _markdown(sections: Sequence[Section], context: Context, notes: Sequence[str]) -> str:
    lines = [f"# {_TITLE}", "", *_spaced(_introduction(context)),
             *_spaced([f"**{each}**" for each in notes])]
    for section in sections:
        lines += [f"## {section.title}", "", f"**In one line:** {section.line}", "",
                  f"![{section.title}]({section.key}.png)", ""]
        if section.claims:
            lines += _markdown_table(_CLAIMS, _claim_rows(section))
        for table in section.tables:
            lines += [f"**{table.title}**", "", *_markdown_table(table.headings, table.cells)]
    return "\n".join(lines) + "\n"


def _spaced(texts: Sequence[str]) -> List[str]:
    return [line for text in texts for line in (text, "")]


def _markdown_table(headings: Sequence[str], cells: Sequence[Sequence[str]]) -> List[str]:
    def line(texts: Sequence[str]) -> str:
        return "| " + " | ".join(text.replace("|", "\\|") or " " for text in texts) + " |"

    return [line(headings), "|" + " --- |" * len(headings), *map(line, cells), ""]


# ---- HTML


def _html(sections: Sequence[Section], context: Context, notes: Sequence[str],
          pictures: Dict[str, bytes]) -> str:
    parts = [f"<h1>{_escaped(_TITLE)}</h1>", *(f"<p>{_escaped(each)}</p>" for each in
             _introduction(context)), *(f"<p class='note'>{_escaped(each)}</p>" for each in notes)]
    for section in sections:
        encoded = base64.b64encode(pictures[section.key]).decode("ascii")
        parts += [f"<h2 id='{section.key}'>{_escaped(section.title)}</h2>",
                  f"<p><b>In one line:</b> {_escaped(section.line)}</p>",
                  f"<img alt='{_escaped(section.title)}' src='data:image/png;base64,{encoded}'>"]
        if section.claims:
            parts.append(_html_table(Table("", _CLAIMS, _claim_rows(section))))
        parts += [_html_table(table) for table in section.tables]
    return ("<!doctype html>\n<html lang='en'><head><meta charset='utf-8'>"
            f"<title>{_escaped(_TITLE)}</title><style>{_STYLE}</style></head>\n<body>\n"
            + "\n".join(parts) + "\n</body></html>\n")


def _html_table(table: Table) -> str:
    def row(tag: str, texts: Sequence[str]) -> str:
        return "<tr>" + "".join(f"<{tag}>{_escaped(text)}</{tag}>" for text in texts) + "</tr>"

    title = f"<h3>{_escaped(table.title)}</h3>" if table.title else ""
    return (f"{title}<table>{row('th', table.headings)}"
            + "".join(row("td", cells) for cells in table.cells) + "</table>")


def _escaped(text: Any) -> str:
    return html.escape(str(text), quote=True)
