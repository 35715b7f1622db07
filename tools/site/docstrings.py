"""How docstrings look on the site: their lists of arguments become lists. griffe calls this."""

from __future__ import annotations

import re
from typing import Any, List

from griffe import Extension

# "rank, world_size: what they are", with more lines behind it that are indented.
_ITEM = re.compile(r"([a-z_]\w*(?:, [a-z_]\w*)*): (.*)$")
_STARRED = re.compile(r"(?<![`\w*])([A-Z_]+\*)(?![`\w*])")


class ListsOfArguments(Extension):
    """Changes the text of every docstring."""

    def on_instance(self, *, obj: Any, **_: Any) -> None:
        """After an object was read."""
        if obj.docstring is not None:
            obj.docstring.value = listed(obj.docstring.value)


def listed(text: str) -> str:
    """Lines of the form `name: words` as items of a list; names that end with a star as code."""
    lines: List[str] = []
    in_list = False
    for line in text.splitlines():
        item = _ITEM.match(line)
        if item is not None:
            names = ", ".join(f"`{name}`" for name in item[1].split(", "))
            if not in_list and lines and lines[-1]:
                lines.append("")
            lines.append(f"- {names}: {item[2]}")
        else:
            if in_list and line and not line.startswith(" "):
                lines.append("")
            lines.append(line)
        in_list = item is not None or (in_list and line.startswith(" "))
    return _STARRED.sub(r"`\1`", "\n".join(lines))
