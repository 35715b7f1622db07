"""`nezha plan`: what a cluster can do, before it is bought or cabled."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Dict, Optional

import typer

from nezha_tools.cli import figures
from nezha_tools.cli.conventions import FOUND, App, json_option
from nezha_tools.cli.errors import PlanError
from nezha_tools.cli.sizes import parse_size, size_list

from . import job_command, offload_command
from .answers import answer, one_sentence

_ALGORITHM_HELP = """What every algorithm would cost on these rails, where they cross, and which one runs.

--rates has RATE:LATENCY of each rail, --calibration what nezha calibrate measured. Costs come from the
library's catalog, the division among rails from its balancer.

\b
Examples:
  nezha plan algorithm --nodes 8 --rates 25Gbit/s:20us,10Gbit/s:50us
  nezha plan algorithm --nodes 64 --rates 100G:10us -b 1K -e 1G --plot out/algorithms.png
  nezha plan algorithm --nodes 4 --rates 1G:30us,1G:30us --interference out/interference.json
"""
_CHECK_HELP = """A measured table, or one number, against what the hardware allows.

Tables: nccl-tests' JSON (all_reduce_perf ... -J FILE) and nezha bench's (--json=FILE).

\b
Examples:
  nezha plan check nccl.json --accelerator A100
  nezha plan check nccl.json --accelerator H100 --nics 8x400Gbit/s --size 25M
  nezha plan check --busbw 235GB/s --accelerator A100
"""
_RAILS_HELP = """How many rails connect all hosts when a port only sends or only receives; who does what.

\b
Examples:
  nezha plan rails --nodes 384
  nezha plan rails --rails 8             how many hosts 8 rails connect
  nezha plan rails --file cluster.yaml   what a given cabling can do
"""

app = App(no_args_is_help=True, help="Compute what a cluster can do.")
_JSON = json_option()


@app.command(help="What links are advertised with: inside nodes, between nodes, in bits and in bytes.")
def links(accelerator: Optional[str] = typer.Option(
    None, "--accelerator", help="Only this one: H100, MI300X, ..."),
          fabric: Optional[str] = typer.Option(
              None, "--fabric", help="Only networks with this in their name."),
          json_to: Optional[str] = _JSON) -> None:
    from . import links as tables
    from . import show as plan_show

    with one_sentence("links"):
        document: Dict[str, Any] = {"units": "one direction; GB is 1e9 bytes, Gbit 1e9 bits; "
                                             "practical: 80 %"}
        if accelerator is not None or fabric is None:
            document["intra_node"] = tables.intra_rows(accelerator)
        if fabric is not None or accelerator is None:
            document["inter_node"] = tables.inter_rows(fabric)
        if accelerator is None and fabric is None:
            document["pcie_x16"] = tables.pcie_rows()
        if accelerator is None or fabric is not None:
            document["infiniband"] = tables.infiniband_rows(fabric)
        document["sources"] = tables.sources()
    answer("links", document, json_to, plan_show.links)


@app.command(help=_RAILS_HELP)
def rails(hosts: Optional[int] = typer.Option(None, "--nodes", help="Connect so many."),
          rail_count: Optional[int] = typer.Option(None, "--rails", help="With so many rails."),
          file: Optional[Path] = typer.Option(None, "--file", help="A cabling, YAML; see "
                                                                   "docs/planning.md."),
          json_to: Optional[str] = _JSON) -> None:
    from . import rails_report
    from .cabling import explain, read_cabling
    from . import show as plan_show

    with one_sentence("rails"):
        if sum(each is not None for each in (hosts, rail_count, file)) != 1:
            raise PlanError("give one of --nodes N, --rails N and --file FILE")
        if hosts is not None:
            document, show = rails_report.for_hosts(hosts), plan_show.assignment
        elif rail_count is not None:
            document, show = rails_report.for_rails(rail_count), plan_show.most_hosts
        elif file is not None:
            document, show = explain(read_cabling(file)), plan_show.cabling
    answer("rails", document, json_to, show)


@app.command(help=_ALGORITHM_HELP)
def algorithm(nodes: int = typer.Option(..., "--nodes", help="Ranks, one a node."),
              rates: Optional[str] = typer.Option(None, "--rates", help="RATE:LATENCY of each rail, such "
                                                                        "as 25Gbit/s:20us,10G:50us."),
              calibration: Optional[Path] = typer.Option(
                  None, "--calibration", help="Or what nezha calibrate measured."),
              collective: str = typer.Option("all_reduce", "--collective",
                                              help="all_reduce, all_gather, broadcast, ..."),
              minbytes: str = typer.Option("4", "-b", "--minbytes", help="Smallest size; 8M is 8 x "
                                                                         "1024 x 1024."),
              maxbytes: str = typer.Option("256M", "-e", "--maxbytes", help="Largest size."),
              factor: int = typer.Option(4, "-f", "--stepfactor", help="Each size is so many times "
                                                                       "the one before."),
              interference: Optional[Path] = typer.Option(
                  None, "--interference", help="What the rails cost each other: the file of nezha "
                                               "bench interference."),
              plot_to: Optional[Path] = typer.Option(None, "--plot", help="Write a picture."),
              json_to: Optional[str] = _JSON) -> None:
    from . import algorithms, algorithm_figure
    from .interference_file import read_interference
    from nezha_tools.cli.units import parse_rails
    from ..sim import calibration as calibrations
    from . import show as plan_show

    with one_sentence("algorithm"):
        if (rates is None) == (calibration is None):
            raise PlanError("give --rates RATE:LATENCY,... or --calibration FILE, and not both")
        measured = None if calibration is None else calibrations.read(calibration)
        found = parse_rails("rates", rates or "") if measured is None else measured.rails()
        split_cost_s, lost = (None, None) if measured is None else (measured.split_cost_s,
                                                                    measured.rate_lost)
        if interference is not None:
            split_cost_s, lost = read_interference(interference, len(found))
        question = algorithms.Question(collective, nodes, found, split_cost_s, lost,
                                       measured.adds if measured else None, measured is not None)
        sizes = [0] if collective == "barrier" else size_list(parse_size(minbytes), parse_size(maxbytes),
                                                              factor, 4)
        answers = [algorithms.answer(question, size) for size in sizes]
        crossings = algorithms.crossings(question, sizes[0], sizes[-1]) if len(sizes) > 1 else []
        document = algorithms.document(question, answers, crossings)
        for row in document["rows"]:
            row["known_as"] = (calibrations.EXTRAPOLATED if measured is None else
                               measured.known_as(collective, nodes, row["size"]))
    answer("algorithm", document, json_to, plan_show.algorithms)
    with one_sentence("algorithm", FOUND):
        figures.answer(plot_to, lambda path: algorithm_figure.plot(
            answers, crossings, path, f"{collective}, {nodes} nodes, {rates or calibration}"))


@app.command(help=_CHECK_HELP)
def check(
        table: Optional[Path] = typer.Argument(None, help="A measured table, JSON."),
        busbw: Optional[str] = typer.Option(None, "--busbw", help="Or one bus bandwidth: 235GB/s."),
        ranks: int = typer.Option(8, "--ranks",
                                  help="Of --busbw: how many took part, on one node."),
        accelerator: Optional[str] = typer.Option(
            None, "--accelerator", help="What is in the nodes: H100, ..."),
        nics: Optional[str] = typer.Option(
            None, "--nics", help="What connects nodes, of each: 8x400Gbit/s."),
        against: Optional[str] = typer.Option(
            None, "--against", help="The slowest wire, if you know it: 300GB/s."),
        in_network: bool = typer.Option(
            False, "--in-network", help="Switches added up (NVLS, SHARP)."),
        size: Optional[str] = typer.Option(
            None, "--size", help="Also: how long one operation of this size takes."),
        json_to: Optional[str] = _JSON) -> None:
    from . import check as checks
    from nezha_tools.cli.units import parse_nics, parse_rate
    from . import show as plan_show

    with one_sentence("check"):
        wires = checks.Wires(accelerator, parse_nics("nics", nics) if nics else None,
                             parse_rate("against", against) if against else None, in_network)
        if (table is None) == (busbw is None):
            raise PlanError("give a FILE or --busbw RATE, and not both")
        if table is not None:
            document = checks.table(table, wires, parse_size(size) if size else None)
        else:
            document = checks.number(parse_rate("busbw", busbw), ranks, wires)
    show = plan_show.checked_table if table is not None else plan_show.checked_number
    answer("check", document, json_to, show)


app.command(name="offload", help=offload_command.HELP)(offload_command.offload)
app.command(name="job", help=job_command.HELP)(job_command.job)
