"""`nezha sim rails`: which rail takes a message, simulated; the source's study made again."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any, List, Optional

import typer

from nezha_tools.cli import console
from nezha_tools.cli.progress import progress
from nezha_tools.cli.errors import BenchError
from nezha_tools.cli.sizes import format_size, parse_size
from nezha_tools.cli.errors import PlanError
from nezha_tools.cli.validation import refused, whole
from nezha_tools.cli.conventions import FOUND, WRONG_LINE, json_option

HELP = """Policies of rail allocation under load: throughput, latency.

Messages of random sizes go between random hosts. A load of 1 is all that the hosts'
buses carry when no port ever sends and receives at once. --study makes the published study again: all
policies, 32 to 128 hosts, tables, three pictures and a JSON file.

\b
Examples:
  nezha sim rails --study
  nezha sim rails --nodes 64 --rails 2 --mean 16K --policies dynamic,hybrid --loads 0.5,0.7,0.9
  nezha sim rails --mean 2K,64K --striped --json=runs.json
"""
_DEFAULTS = {"policies": "modulo,random,round_robin,local_dynamic,dynamic,hybrid",
             "loads": "0.2,0.4,0.6,0.8,1", "mean": "32K"}
_STUDY_MESSAGES, _RUN_MESSAGES = 40, 60


def rails(
    context: typer.Context,
    study: bool = typer.Option(False, "--study", help="The whole study; takes minutes."),
    to: Path = typer.Option(Path("out/rail_study"), "--to", help="Folder for what --study writes."),
    policies: str = typer.Option(_DEFAULTS["policies"], "--policies", help="Some of modulo, random, "
                                 "round_robin, static, local_dynamic, dynamic, hybrid."),
    striped: bool = typer.Option(False, "--striped", help="Messages are divided over rails."),
    nodes: int = typer.Option(32, "--nodes", help="Of the cluster."),
    rail_count: int = typer.Option(4, "--rails", help="Rails of each host."),
    processes: int = typer.Option(4, "--processes", help="Of each host; each sends one message after "
                                  "another."),
    mean: str = typer.Option(_DEFAULTS["mean"], "--mean", help="Mean size of messages, such as 64K; with "
                             "2K,64K half of them have each."),
    loads: str = typer.Option(_DEFAULTS["loads"], "--loads", help="What is offered."),
    short: str = typer.Option("8K", "--short", help="hybrid sends smaller messages without reserving."),
    messages: Optional[int] = typer.Option(None, "--messages", show_default=False, help="Of each process "
                                           f"in a run (default: {_RUN_MESSAGES}; {_STUDY_MESSAGES} with "
                                           "--study)."),
    seed: int = typer.Option(1, "--seed", help="The same seed, the same numbers."),
    json_to: Optional[str] = json_option(),
) -> None:
    from .rails import case_runs, rail_tables
    from .rails import rail_study as studies
    from .rails.case import MESSAGES_MAX, Case

    with console.one_line("sim rails", PlanError, ValueError, code=WRONG_LINE):
        _refuse_what_does_not_go_together(context, study)
        whole("seed", seed, 0, 2**53)
        if messages is None:
            messages = _STUDY_MESSAGES if study else _RUN_MESSAGES
        whole("messages", messages, 5, MESSAGES_MAX)
        cases = [] if study else [
            Case(policy, striped, nodes, rail_count, tuple(map(parse_size, mean.split(","))), load, seed,
                 processes, messages, parse_size(short))
            for policy in policies.split(",") for load in _numbers("loads", loads)]
    with console.one_line("sim rails", BenchError, OSError, code=FOUND), progress() as step:
        if study:
            rail_tables.prepare(to)
            document = studies.run(seed, messages, step)
            written = rail_tables.write(document, to)
        else:
            outcomes = case_runs.measure_all(cases, step("runs", len(set(cases))))
            document = {"runs": [outcomes[case].row(case) for case in cases]}
            written = []
    title = (f"{nodes} hosts, {rail_count} rails, messages of "
             f"{'+'.join(format_size(parse_size(each)) for each in mean.split(','))}"
             f"{', striped' if striped else ''}")
    with console.one_line("sim rails", code=FOUND):
        console.answer(document, json_to, lambda found: rail_tables.study(found) if study else
                       rail_tables.runs(found["runs"], title))
    for path in written:
        print(f"written: {path}", file=sys.stderr)


def _refuse_what_does_not_go_together(context: typer.Context, study: bool) -> None:
    of_runs = ("policies", "striped", "nodes", "rail_count", "processes", "mean", "loads", "short")
    for name in of_runs if study else ("to",):
        source: Any = context.get_parameter_source(name)
        if source.name == "COMMANDLINE":
            option = "--rails" if name == "rail_count" else f"--{name}"
            raise PlanError(f"{option} does not go with --study, which sets it for each of its runs"
                            if study else f"{option} belongs to --study")


def _numbers(field: str, text: str) -> List[float]:
    numbers = []
    for each in text.split(","):
        try:
            numbers.append(float(each))
        except ValueError:
            raise refused(field, each, "a number such as 0.5, or several: 0.2,0.5") from None
    return numbers
