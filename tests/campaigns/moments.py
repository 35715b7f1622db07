"""Being on time."""

from __future__ import annotations

import time

_SPIN_S = 0.0005  # a sleep may be this late


def until(moment: float) -> None:
    """Returns at that moment of CLOCK_MONOTONIC, or at once when it has passed."""
    left = moment - time.monotonic() - _SPIN_S
    if left > 0:
        time.sleep(left)
    while time.monotonic() < moment:
        pass
