"""What every picture of the bench has in common: a library that draws without a screen, and a file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ..whole_files import whole_file
from .errors import BenchError


def drawing() -> Any:
    """matplotlib.pyplot. Raises BenchError that says how to install it."""
    try:
        import matplotlib
    except ImportError as error:
        raise BenchError("--plot needs matplotlib: pip install matplotlib") from error
    matplotlib.use("Agg")
    from matplotlib import pyplot
    return pyplot


def write(figure: Any, path: Path) -> None:
    """Lays out and writes a figure, which is closed in any case. Raises BenchError where it cannot."""
    figure.tight_layout()
    try:
        with whole_file(path) as place:
            figure.savefig(place)
    except (OSError, ValueError) as error:  # ValueError: no format of that name
        raise BenchError(f"cannot write the plot {path}: {error}") from error
    finally:
        drawing().close(figure)
