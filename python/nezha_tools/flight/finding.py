"""Finding: one sentence about what went wrong, and whose it is."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Dict, Optional, Tuple

# Most telling first: a disagreement explains the errors after it, a rank in trouble who waits for it.
KINDS = ("mismatch", "error", "lost", "absent", "missing_call", "deadlock", "data", "aborted",
         "straggler", "no_dump", "rails")


@dataclass(frozen=True)
class Finding:
    """`ranks` are global ranks, those to look at."""

    kind: str
    ranks: Tuple[int, ...]
    text: str
    comm: Optional[int] = None
    op_seq: Optional[int] = None
    details: Dict[str, Any] = field(default_factory=dict)

    @property
    def weight(self) -> Tuple[int, int]:
        """Smaller is more telling."""
        return KINDS.index(self.kind), self.op_seq or 0

    def as_dict(self) -> Dict[str, Any]:
        """For --json."""
        return {"kind": self.kind, "ranks": list(self.ranks), "comm": self.comm,
                "op_seq": self.op_seq, "text": self.text, **self.details}
