"""`nezha sim`: what happens in time, on clusters that need not exist."""

from __future__ import annotations

from .conventions import App

app = App(no_args_is_help=True, help="What operations take on clusters that need not exist, in time.")


@app.callback()
def _group() -> None:
    """A group even while it has few commands."""
