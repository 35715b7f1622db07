"""What this installation is: version, commit, compiler, and which modules are there."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Dict, List

# The libraries beside Nezha's own that jobs open when they need them (docs/architecture.md).
_MODULES = ("aggregation", "allocation", "ofi", "proof", "protection", "queries", "redis", "table")


def describe_build() -> Dict[str, Any]:
    """The library's answer to "build", with "modules" and, where there are any, "missing modules"."""
    import nezha
    from nezha.queries import ask

    folder = Path(nezha.__file__).parent
    there: List[str] = [name for name in _MODULES if (folder / f"libnezha_{name}.so").exists()]
    missing = [name for name in _MODULES if name not in there]
    answer: Dict[str, Any] = {**ask("build"), "modules": there}
    return {**answer, "missing modules": missing} if missing else answer
