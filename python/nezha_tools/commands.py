"""The commands of `nezha`, each loaded when it is used, and the help that lists them."""

from __future__ import annotations

import importlib
from typing import Any, Dict, List, NamedTuple

import typer

from .cli.conventions import App, Group


class _Listed(NamedTuple):
    """A command: where its App is, and a sentence for the list. Without a module: `nezha run`, which
    nezha_tools.main hands to the launcher."""

    module: str
    summary: str


_COMMANDS: Dict[str, _Listed] = {
    "run": _Listed("", "Start the ranks of a job: here, in a lab, or on other hosts."),
    "info": _Listed("nezha_tools.info.command",
                    "This host's rails as Nezha sees them; the configuration; the path to another host."),
    "explain": _Listed("nezha_tools.explain.command",
                       "Which algorithm and rails an operation would use, and why."),
    "algorithm": _Listed("nezha_tools.explain.algorithm_command",
                         "Check your own schedules of a collective."),
    "plan": _Listed("nezha_study.plan.command",
                    "Plan a cluster: links, training jobs, rails, algorithms, measured tables."),
    "sim": _Listed("nezha_study.sim.command",
                   "Simulate the time of collectives, rails and switches on any cluster."),
    "calibrate": _Listed("nezha_study.sim.calibrate_command",
                         "Measure latency, rate and cost of the rails, for plan and sim."),
    "study": _Listed("nezha_study.paper.command",
                     "Repeat the measurements of the Nezha paper in labs of this machine."),
    "flight": _Listed("nezha_tools.flight.command",
                      "Analyse the dumps of a job: what each rank did last, and the cause."),
    "bench": _Listed("nezha_tools.bench.command",
                     "Measure collectives, in a launched world or in a lab built for it."),
    "lab": _Listed("nezha_tools.lab.command",
                   "Build a multi-rail cluster of network namespaces on this machine."),
    "aggregator": _Listed("nezha_tools.aggregator.command",
                          "Run an aggregation node, which adds up the data of the ranks of jobs."),
    "chaos": _Listed("nezha_tools.chaos.command",
                     "Run your program in a lab and inject faults on its rails and ranks."),
    "demo": _Listed("nezha_tools.demo.command",
                    "Measure three small clusters and train a network on them."),
}


class _OnDemand(Group):
    """Loads a command's module when it is used: most need neither a plotting library nor a simulator."""

    def list_commands(self, ctx: Any) -> List[str]:
        return list(_COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        listed = _COMMANDS.get(cmd_name)
        if listed is None or not listed.module:
            return None
        command = typer.main.get_command(importlib.import_module(listed.module).app)
        command.name = cmd_name
        return command

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, listed.summary) for name, listed in _COMMANDS.items()])


app = App(
    cls=_OnDemand, no_args_is_help=True, add_completion=True,
    help="Nezha: collective communication over every network of every node at once.\n\n"
         "Try it on this machine alone:\n\n\b\n"
         "  nezha demo                               one rail, two, and two unequal ones\n"
         "  nezha run -n 4 python train.py           four ranks on this host\n"
         "  nezha bench all_reduce --nodes 4 --rates 1gbit,500mbit\n"
         "  nezha info                               which rails this host has\n\n"
         "Exit codes:\n\n\b\n"
         "  0    success\n"
         "  1    failure, or a wrong result\n"
         "  2    bad command line: unknown option, bad value, or not the expected file\n"
         "  125  of run, lab exec and chaos: Nezha failed; other codes are the program's\n\n"
         "--json prints JSON on standard output, --json=FILE writes it to FILE. More: docs/commands.md.")


def _print_version(wanted: bool) -> None:
    if wanted:
        from .info.build import describe_build

        build = describe_build()
        typer.echo(f"nezha {build['version']}\ncommit {build['commit'] or 'unknown'}\n"
                   f"compiler {build['compiler']}\nmodules {', '.join(build['modules']) or 'none'}")
        raise typer.Exit()


@app.callback()
def _options(version: bool = typer.Option(False, "--version", callback=_print_version, is_eager=True,
                                          help="Print version, commit, compiler and modules.")) -> None:
    del version  # its callback has done the work
