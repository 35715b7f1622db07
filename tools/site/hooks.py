"""What mkdocs does not do by itself: pages that stand elsewhere, and links to files of the repository.

README, changelog and the like become pages of the site; so does nezha.h. A link to a file that is on no
page loses its target and keeps its words. mkdocs calls the functions (mkdocs.yml, hooks).
"""

from __future__ import annotations

import os
import posixpath
import re
from pathlib import Path
from typing import Any, Dict

from mkdocs.structure.files import File

import c_reference

ROOT = Path(__file__).resolve().parents[2]
# Files of the repository that are pages, and which.
PAGES: Dict[str, str] = {
    "README.md": "index.md", "CHANGELOG.md": "changelog.md", "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "security_policy.md", "examples/README.md": "examples.md",
    "include/nezha/nezha.h": "c_reference.md",
    **{f"modules/{path.parent.name}/README.md": f"modules/{path.parent.name}.md"
       for path in (ROOT / "modules").glob("*/README.md")},
}
_SOURCES = {page: source for source, page in PAGES.items()}
_LINK = re.compile(r"(!?)\[((?:[^][]|\[[^][]*\])*)\]\(([^)\s:]+?)(#[^)\s]*)?\)")
_BLOCK = re.compile(r"(^```.*?^```)", re.MULTILINE | re.DOTALL)


def on_config(config: Any) -> Any:
    """Adds the folders whose pages need no titles of their own in the menu."""
    decisions = sorted(path.name for path in (ROOT / "docs/adr").glob("*.md"))
    config.nav.append({"Modules": sorted(page for page in _SOURCES if page.startswith("modules/"))})
    config.nav.append({"Decisions": [f"adr/{name}" for name in decisions]})
    return config


def on_files(files: Any, config: Any) -> Any:
    """Adds the pages that stand elsewhere."""
    for source, page in PAGES.items():
        text = (ROOT / source).read_text("utf-8")
        files.append(File.generated(config, page, content=c_reference.page(text) if source.endswith(".h")
                                    else text))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Turns links among files of the repository into links among pages."""
    here = page.file.src_uri
    source = _SOURCES.get(here, f"docs/{here}")

    def link(found: "re.Match[str]") -> str:
        image, words, target, anchor = found[1], found[2], found[3], found[4] or ""
        path = posixpath.normpath(posixpath.join(posixpath.dirname(source), target))
        to = PAGES.get(path, path[len("docs/"):] if path.startswith("docs/") else "")
        if not to or (not image and not to.endswith(".md")):
            return words
        return f"{image}[{words}]({os.path.relpath(to, posixpath.dirname(here) or '.')}{anchor})"

    # Blocks of code stay as they are.
    parts = _BLOCK.split(markdown)
    return "".join(part if index % 2 else _LINK.sub(link, part) for index, part in enumerate(parts))
