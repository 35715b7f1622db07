"""The `nezha` command."""

import typer

from .lab import app as lab_app

app = typer.Typer(no_args_is_help=True, help="Collectives over every network of a node.")
app.add_typer(lab_app, name="lab")


@app.callback()
def main() -> None:
    """Collectives over every network of a node."""
