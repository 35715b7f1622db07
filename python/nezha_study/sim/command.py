"""`nezha sim`: what happens in time, on clusters that need not exist."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Callable, ContextManager, List, Optional

import typer

from nezha_tools.cli import console, figures
from nezha_tools.cli.progress import progress
from nezha_tools.cli.errors import BenchError
from nezha_tools.cli.sizes import parse_size, size_list
from nezha.errors import Error
from nezha_tools.lab import LabError
from nezha_tools.cli.errors import PlanError
from . import (aggregation_command as sim_aggregation, balancer_command as sim_balancer,
               options as options, paper_command as sim_paper, rails_command as sim_rails,
               switch_command as sim_switch)
from nezha_tools.cli.conventions import FOUND, WRONG_LINE, App, json_option

_COLLECTIVE_HELP = """A collective over sizes and hosts: its time, where it goes, what every rail carries.

The library plans each operation and its balancer picks the rails; --rates has RATE:LATENCY of each rail,
--calibration what nezha calibrate measured.

\b
Examples:
  nezha sim collective --nodes 64 --rates 25G:20us,10G:50us
  nezha sim collective all_gather --nodes 4,64,1024 --rates 100G:5us -b 1M -e 256M --plot out/sim.png
  nezha sim collective --nodes 8 --rates 1G:30us,1G:30us -b 8M -e 8M --change 1:0@2ms
  nezha sim collective --nodes 8 --rates 1G:30us -b 8M -e 8M --timeline out/timeline.json
  nezha sim collective --nodes 5 --calibration out/calibration.json
  nezha sim collective --nodes 4,64 --ranks-per-host 8 --rates 100G:5us,100G:5us --inside 3GB/s:5us
"""
_SCALE_HELP = """Every algorithm of the catalog once, at one size, on many hosts.

\b
Examples:
  nezha sim scale                                    20,000 hosts, 8 rails of 50 Gbit/s
  nezha sim scale --nodes 4,6,8,128,20000 --rates 100G:3us,10G:20us --size 1M
  nezha sim scale --ranks-per-host 4                 80,000 ranks
"""
_STUDY_HELP = """How far the simulation is off: fitted to labs of 2 and 3 hosts, compared to larger.

Measures in labs of its own, for about ten minutes; nothing else should run meanwhile.

\b
Example:
  nezha sim study --json=out/study.json --plot out/study.png
"""

app = App(no_args_is_help=True, help="Simulate times on clusters of any size.")
_JSON = json_option()


def one_sentence(command: str, code: int = WRONG_LINE) -> ContextManager[None]:
    """Turns errors into a sentence on standard error and an exit code."""
    kinds = (PlanError, BenchError, LabError, Error, ValueError)
    return console.one_line(f"sim {command}", *kinds, code=code)


def answer(command: str, document: Any, json_to: Optional[str], show: Callable[[Any], None]) -> None:
    """Hands out what a command has found, as --json asks."""
    with one_sentence(command, FOUND):
        console.answer(document, json_to, show)


@app.command(help=_COLLECTIVE_HELP)
def collective(
        name: str = typer.Argument("all_reduce", help="all_reduce, broadcast, ..."),
        hosts: str = options.HOSTS,
        rates: Optional[str] = options.RATES,
        calibration: Optional[Path] = options.CALIBRATION,
        minbytes: str = options.minbytes("64K"),
        maxbytes: str = options.maxbytes("64M"),
        factor: int = options.factor(4),
        algorithm: str = options.ALGORITHM,
        root: int = typer.Option(0, "--root", help="Rank of broadcast, reduce, gather, scatter."),
        ranks_per_host: str = options.RANKS_PER_HOST,
        inside: Optional[str] = options.INSIDE,
        gap: str = options.GAP,
        slow: List[str] = typer.Option([], "--slow", help="HOST:FACTOR, a host with so many times the "
                                                          "rate: 3:0.5; repeatable."),
        late: List[str] = typer.Option([], "--late", help="HOST:TIME, a host that begins later: 3:2ms; "
                                                          "repeatable."),
        vary: float = typer.Option(0.0, "--vary", help="Rates of hosts are drawn from [1-VARY, 1]."),
        seed: int = typer.Option(1, "--seed", help="Of --vary."),
        change: List[str] = typer.Option([], "--change", help="RAIL:FACTOR@TIME, a rail that gets slower "
                                         "(0: fails), as 1:0@2ms; RAIL/HOST on one host; repeatable."),
        interference: Optional[Path] = options.INTERFERENCE,
        tree: Optional[str] = typer.Option(None, "--tree", help="POD:OVER, a fat tree: pods of POD hosts "
                                           "with uplinks oversubscribed OVER times, such as 32:2."),
        timeline: Optional[Path] = typer.Option(None, "--timeline", help="Write every transfer of the "
                                                "largest size for ui.perfetto.dev; up to 64 hosts."),
        plot_to: Optional[Path] = options.PLOT,
        json_to: Optional[str] = _JSON) -> None:
    from . import show, sweep

    with one_sentence("collective"):
        asked = sweep.Request(
            name, sweep.counts("nodes", hosts),
            size_list(parse_size(minbytes), parse_size(maxbytes), factor, 4), algorithm, root)
        world = sweep.World(rates, calibration, gap, slow, late, vary, seed, change, interference, tree,
                            ranks_per_host, inside)
        with progress() as step:
            document = sweep.run(asked, world, timeline, step)
    answer("collective", document, json_to, show.collective)
    with one_sentence("collective", FOUND):
        figures.answer(plot_to, lambda path: sweep.plot(document, path))


@app.command(help=_SCALE_HELP)
def scale(hosts: str = typer.Option("20000", "--nodes", help="How many, or several counts."),
          rates: str = typer.Option(",".join(["50G:5us"] * 8), "--rates", help="RATE:LATENCY of each "
                                                                               "rail."),
          size: str = typer.Option("4M", "--size", help="Bytes of the operation."),
          gap: str = typer.Option("0.5us", "--gap", help="Processor time of a message."),
          ranks_per_host: str = options.RANKS_PER_HOST,
          inside: Optional[str] = options.INSIDE,
          json_to: Optional[str] = _JSON) -> None:
    from . import show, sweep

    with one_sentence("scale"):
        with progress() as step:
            world = sweep.World(rates, gap=gap, ranks_per_host=ranks_per_host, inside=inside)
            document = sweep.scale(sweep.counts("nodes", hosts), world, parse_size(size), step)
    answer("scale", document, json_to, show.scale)


@app.command(help=_STUDY_HELP)
def study(rates: List[str] = typer.Option([], "--rates", help="Rails of one case, as 200mbit,100mbit; "
                                          "repeatable (default: three cases)."),
          hosts: str = typer.Option("4,5,6", "--nodes", help="Worlds to predict."),
          seconds: float = typer.Option(0.5, "--seconds", min=0.01, help="Of each size in each run."),
          passes: int = typer.Option(2, "--passes", min=1, help="Runs; the quickest counts."),
          plot_to: Optional[Path] = options.PLOT,
          json_to: Optional[str] = _JSON) -> None:
    from . import show, engine_study as studies, sweep
    from nezha_tools.cli.values import read_rates

    with one_sentence("study"):
        cases = [read_rates(each) for each in rates] or [list(case) for case in studies.CASES]
        worlds = sweep.counts("nodes", hosts)
        if min(worlds) < 2 or max(worlds) > 64:
            raise PlanError(f"nodes {hosts}: a lab has 2 to 64")
    with one_sentence("study", FOUND):
        with progress() as step:
            document = studies.run(cases, worlds, seconds, passes, step)
    answer("study", document, json_to, show.study)
    with one_sentence("study", FOUND):
        figures.answer(plot_to, lambda path: studies.plot(document, path))


app.command(name="balancer", help=sim_balancer.HELP)(sim_balancer.balancer)
app.command(name="aggregation", help=sim_aggregation.HELP)(sim_aggregation.aggregation)
app.command(name="paper", help=sim_paper.HELP)(sim_paper.paper)
app.command(name="rails", help=sim_rails.HELP)(sim_rails.rails)
app.command(name="switch", help=sim_switch.HELP)(sim_switch.switch)
