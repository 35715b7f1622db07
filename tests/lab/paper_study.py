"""Runs `nezha study paper` as a command."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any, Dict

from conftest import child_env


def study(*arguments: str) -> Dict[str, Any]:
    """The document of `nezha study paper ...`."""
    code = "import sys; sys.argv[0] = 'nezha'; from nezha_tools.main import main; main()"
    done = subprocess.run([sys.executable, "-c", code, "study", "paper", *arguments, "--json", "-"],
                          text=True, capture_output=True, timeout=280, env=child_env())
    assert done.returncode == 0, done.stderr
    document: Dict[str, Any] = json.loads(done.stdout)
    return document
