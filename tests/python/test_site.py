"""`make docs`: every page is built without a warning, and a link that leads nowhere ends it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PATIENCE_S = 300


def build(folder: Path, site: Path) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "mkdocs", "build", "--site-dir", site]
    return subprocess.run(command, cwd=folder, text=True, capture_output=True, timeout=PATIENCE_S,
                          env={**os.environ, "NO_MKDOCS_2_WARNING": "1"})


def test_the_site_is_built_without_a_warning(tmp_path):
    done = build(ROOT, tmp_path)
    assert done.returncode == 0 and "WARNING" not in done.stderr, done.stderr
    pages = {path.relative_to(tmp_path).parts[0] for path in tmp_path.rglob("index.html")}
    assert {path.stem for path in (ROOT / "docs").glob("*.md")} <= pages
    for page, words in (
            ("python_reference", ("all_reduce", "wait_any", "PeerLost", "<li><code>store</code>")),
            ("c_reference", ("nezha_all_reduce", "nezha_init_from_environment")),
            (".", ("First program", 'href="failure_model/#figures"'))):
        text = (tmp_path / page / "index.html").read_text("utf-8")
        assert not [each for each in words if each.lower() not in text.lower()]


@pytest.mark.parametrize("link", [
    "[x](nothing.md)", "[x](rails.md#no-such-part)", "[x](../README.md#nowhere)"])
def test_a_link_that_leads_nowhere_ends_it(link, tmp_path):
    docs = tmp_path / "docs"
    docs.mkdir()
    for path in (ROOT / "docs").iterdir():
        (docs / path.name).symlink_to(path)
    for name in ("python", "tools"):
        (tmp_path / name).symlink_to(ROOT / name)
    shutil.copy(ROOT / "mkdocs.yml", tmp_path)
    page = docs / "lab.md"
    page.unlink()
    page.write_text((ROOT / "docs/lab.md").read_text("utf-8") + f"\n{link}\n")
    done = build(tmp_path, tmp_path / "site")
    assert done.returncode != 0 and "lab.md" in done.stderr
