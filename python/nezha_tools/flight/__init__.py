"""What the flight recorders of a job's ranks say together: see docs/debugging.md."""

from .analysis import Finding, Report, analyse
from .dumps import Dump, DumpError, choose_run, parse, read_files

__all__ = ["Dump", "DumpError", "Finding", "Report", "analyse", "choose_run", "parse", "read_files"]
