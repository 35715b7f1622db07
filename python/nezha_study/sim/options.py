"""The options that commands of `nezha sim` have in common: hosts, rails, sizes, a picture."""

from __future__ import annotations

from typing import Any

import typer

HOSTS = typer.Option(..., "--nodes", help="How many, or several counts: 4,64,1024.")
RATES = typer.Option(None, "--rates", help="RATE:LATENCY of each rail, such as 25Gbit/s:20us,10G:50us.")
CALIBRATION = typer.Option(None, "--calibration", help="Or what nezha calibrate has measured.")
ALGORITHM = typer.Option("auto", "--algorithm", help="Of the hosts: ring, bcube, ... (default: the "
                         "library's choice).")
GAP = typer.Option("0us", "--gap", help="Processor time of a message.")
INTERFERENCE = typer.Option(None, "--interference", help="The file of nezha bench interference.")
RANKS_PER_HOST = typer.Option("1", "--ranks-per-host", metavar="L", help="Of every host, which share its "
                              "rails; 1,2,4 for hosts that differ.")
INSIDE = typer.Option(None, "--inside", help="RATE:LATENCY of a rank's messages to others of its host "
                      "(default: as measured, or 3GB/s:5us).")
PLOT = typer.Option(None, "--plot", help="Write a picture.")


def minbytes(default: str) -> Any:
    """The smallest size."""
    return typer.Option(default, "-b", "--minbytes", help="Smallest size.")


def maxbytes(default: str) -> Any:
    """The largest size."""
    return typer.Option(default, "-e", "--maxbytes", help="Largest size.")


def factor(default: int) -> Any:
    """From each size to the next."""
    return typer.Option(default, "-f", "--stepfactor", help="Each size is so many times the one before.")
