"""`nezha plan offload`: how much of an all_gather inside a host its adapters should carry."""

from __future__ import annotations

from typing import Optional, Tuple

import typer

from nezha_tools.cli.sizes import parse_size
from nezha_tools.cli.errors import PlanError
from nezha_tools.cli.conventions import json_option

from .answers import answer, one_sentence

HELP = """How much of an all_gather inside a host its idle adapters should carry, and from which sizes on.

Processes of a host copy from each other, while its adapters could carry some of that: of the L - 1
messages that each of L processes gets, d = (L - 1) / (1 + L B_c / (H B_h)), for H adapters of B_h and
processes that copy B_c each while all do. What is not given is taken from this host: B_c is measured with
that many processes in shared memory, H and B_h are its RDMA adapters as they describe themselves.

\b
Examples:
  nezha plan offload --processes 4                  this host: measured, and why d is 0 where it is
  nezha plan offload --processes 4 --copy 10GB/s --adapters 2 --adapter 100Gbit/s
  nezha plan offload --processes 32 --copy 3GB/s --adapters 2 --adapter 100Gbit/s --latency 1us --size 64K
"""
_MEASURED_MOST = 16


def offload(processes: int = typer.Option(..., "--processes", help="Of the host."),
            adapters: Optional[int] = typer.Option(None, "--adapters", help="Of the host (default: this "
                                                                            "host's)."),
            copy: Optional[str] = typer.Option(None, "--copy", help="What a process copies while all do: "
                                                                    "10GB/s (default: measured here)."),
            adapter: Optional[str] = typer.Option(None, "--adapter", help="Rate of one: 100Gbit/s "
                                                                          "(default: this host's)."),
            latency: str = typer.Option("2us", "--latency", help="Of a message over an adapter."),
            size: str = typer.Option("1M", "--size", help="Bytes that every process has."),
            json_to: Optional[str] = json_option()) -> None:
    from nezha.queries import ask
    from nezha_tools.explain import offload as formula
    from nezha_tools.cli.units import parse_rate, parse_seconds
    from . import show as plan_show

    with one_sentence("offload"):
        if (adapters is None) != (adapter is None):
            raise PlanError("give --adapters N and --adapter RATE together, or neither for this host's")
        late, length = parse_seconds("latency", latency), parse_size(size)
        if adapters is not None:
            carriers = formula.Adapters(adapters, parse_rate("adapter", adapter), late)
        else:
            carriers = formula.adapters_here(ask("fabric"), late)
        rate, known_as = _copy_rate(copy, processes, length)
        document = {**formula.offload(processes, carriers, rate, length), "copy_known_as": known_as}
    answer("offload", document, json_to, plan_show.offload)


def _copy_rate(given: Optional[str], processes: int, size: int) -> Tuple[float, str]:
    """Bytes per second of one process, and how that is known. Raises PlanError."""
    from nezha_tools.info.memory_probe import try_memory
    from nezha_tools.cli.units import parse_rate

    if given is not None:
        return parse_rate("copy", given), "given"
    if not 2 <= processes <= _MEASURED_MOST:
        raise PlanError(f"--processes {processes}: copying is measured with 2 to {_MEASURED_MOST} "
                        "processes; give --copy RATE")
    trial = try_memory(processes, size)
    if trial.copy_rate is None:
        raise PlanError(f"copying cannot be measured here: {trial.reason}; give --copy RATE")
    return trial.copy_rate, "measured here, in shared memory"
