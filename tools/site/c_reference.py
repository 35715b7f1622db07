"""The page of the C interface, made of nezha.h: each comment with the declarations behind it."""

from __future__ import annotations

import re
from typing import Iterator, Tuple

_COMMENT = re.compile(r"/\*(.*?)\*/\n?", re.DOTALL)
_HIDDEN = re.compile(r"#(ifndef|ifdef|endif|include|define NEZHA_(H|API))|extern \"C\"|}$")
_NAME = re.compile(r"\b(nezha_\w+|NEZHA_\w+)")
_TITLE = "# Reference of nezha.h\n\nMade of the header's comments. [How to start](../../docs/c.md).\n"


def page(header: str) -> str:
    """Markdown of the header's text."""
    parts = [_TITLE]
    for comment, code in _sections(header):
        parts.append(comment)
        if code:
            parts.append(f"```c\n{code}\n```")
    return "\n\n".join(parts) + "\n"


def _sections(header: str) -> Iterator[Tuple[str, str]]:
    """(comment, the declarations behind it), where a comment stands at the beginning of a line."""
    body = header[header.index("/*"):]
    pieces = re.split(r"(?m)^(?=/\*)", body)
    for piece in pieces:
        found = _COMMENT.match(piece)
        if found is None:
            continue
        text = re.sub(r"(?m)^ \* ?", "", found[1]).strip()
        code = "\n".join(line for line in piece[found.end():].splitlines() if not _HIDDEN.match(line))
        yield _quoted(text), re.sub(r"\n{2,}", "\n\n", code.strip())


def _quoted(text: str) -> str:
    """Names as code; lists of the header, which are indented, as code blocks."""
    lines = [f"    {line}" if line.startswith("  ") else line for line in text.splitlines()]
    joined = "\n".join(lines)
    joined = re.sub(r"(?m)^(?!    )(.*[^\n])\n(    )", r"\1\n\n\2", joined)
    return re.sub(r"(?m)^(?!    ).*", lambda line: _NAME.sub(r"`\1`", line[0]), joined)
