"""`nezha sim balancer`: what the balancer converges to, and in how many operations."""

from __future__ import annotations

from pathlib import Path
from typing import Optional

import typer

from nezha_tools.cli import console, figures
from nezha_tools.cli.progress import progress
from nezha_tools.cli.errors import BenchError
from nezha_tools.cli.sizes import parse_size, size_list
from nezha.errors import Error
from nezha_tools.cli.errors import PlanError
from nezha_tools.cli.units import parse_rate
from . import options as options
from nezha_tools.cli.conventions import FOUND, WRONG_LINE, json_option

HELP = """What the balancer converges to, and in how many operations.

Policy table learns shares from the times of operations; here it is told of simulated ones, one after the
other, until its shares stay. Beside it policy pull, which needs no shares, and the best rail alone.
--advertised is what the library believes of the rails before it has measured anything.

\b
Examples:
  nezha sim balancer --nodes 4,8 --rates 8.6G:60us,20.4G:17us
  nezha sim balancer --nodes 4 --rates 25G:20us,10G:50us --advertised 100G,100G -b 1M -e 64M
  nezha sim balancer --nodes 4,128 --rates 8.6G:60us,20.4G:17us --plot out/balancer.png
  nezha sim balancer --nodes 5 --calibration out/calibration.json --json=out/balancer.json
"""


def balancer(
    hosts: str = options.HOSTS,
    rates: Optional[str] = options.RATES,
    calibration: Optional[Path] = options.CALIBRATION,
    advertised: Optional[str] = typer.Option(None, "--advertised", help="RATE of each rail, as its "
                                             "device says (default: what --rates or --calibration "
                                             "say)."),
    interference: Optional[Path] = options.INTERFERENCE,
    minbytes: str = options.minbytes("512K"),
    maxbytes: str = options.maxbytes("32M"),
    factor: int = options.factor(8),
    algorithm: str = options.ALGORITHM,
    operations: int = typer.Option(200, "--operations", help="Stop after so many, 20 to 400, where the "
                                   "shares do not stay before."),
    plot_to: Optional[Path] = options.PLOT,
    json_to: Optional[str] = json_option(),
) -> None:
    from . import convergence, study_figures, show, sweep

    with console.one_line("sim balancer", PlanError, Error, ValueError, code=WRONG_LINE):
        world = sweep.World(rates, calibration, interference=interference)
        told = None if advertised is None else [parse_rate("advertised", each)
                                                for each in advertised.split(",")]
        sizes = size_list(parse_size(minbytes), parse_size(maxbytes), factor, 4)
        with progress() as step:
            document = convergence.run(sweep.counts("nodes", hosts), sizes, world.cluster, told,
                                       algorithm, operations, step)
    with console.one_line("sim balancer", PlanError, BenchError, ValueError, code=FOUND):
        console.answer(document, json_to, show.balancer)
        figures.answer(plot_to, lambda path: study_figures.balancer(document, path,
                                                                    rates or str(calibration)))
