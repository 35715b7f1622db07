"""What the library answers without a job: its options, this host's devices, what an operation costs."""

from __future__ import annotations

import json
from typing import Any, Dict, Optional


def ask(what: str, request: Optional[Dict[str, Any]] = None) -> Any:
    """The answer of nezha_query() (include/nezha/nezha.h) to `what`, decoded. Raises nezha.Error."""
    from . import _native

    return json.loads(_native.query(what, json.dumps(request or {})))
