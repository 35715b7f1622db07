"""`nezha aggregator`: an aggregation node on this host, and a look at one elsewhere."""

from __future__ import annotations

from typing import Optional

import typer

from ..cli import console
from ..cli.errors import AggregatorError
from .options import DEFAULT_PORT, Options, parse_endpoint, read_topology
from ..cli.sizes import parse_size
from nezha.errors import Error
from ..cli.conventions import FOUND, WRONG_LINE, App, json_option

_HELP = """Run an aggregation node: it adds up what ranks send, so that each sends its data once and gets
the result once, whatever the number of ranks.

Put it where it has as much bandwidth as all ranks together: on the switch's own processor, or on a host
with a faster port. It is faster from three ranks on. docs/aggregation.md has figures and describes
trees of nodes.

\b
Three commands:
  (umask 077; openssl rand -hex 32 > key)                 once; a copy for every node and launcher
  nezha aggregator --key-file key                         on the node, say 10.1.0.254
  NEZHA_AGGREGATOR=10.1.0.254:7700 NEZHA_AGGREGATOR_KEY_FILE=key nezha run ... python train.py

\b
More:
  nezha aggregator --listen 10.1.0.254:7700 --device swp0 --metrics :9464
  nezha aggregator --topology tree.json --name leaf0 --key-file key
  nezha aggregator status 10.1.0.254:9464                 where its --metrics listen
  nezha aggregator job-key --key-file key                 for ranks that `nezha run` does not start

Ranks that lose the node continue without it, and use it again when it returns. SIGTERM or Ctrl-C stops
it and prints its statistics.
"""

app = App(invoke_without_command=True)


@app.callback(help=_HELP)
def aggregator(
    context: typer.Context,
    listen: Optional[str] = typer.Option(None, "--listen", metavar="ADDR:PORT", show_default=False,
                                         help="Numeric; port 0: any that is free (default: as the "
                                         "topology says, else 0.0.0.0:7700)."),
    device: Optional[str] = typer.Option(None, "--device", help="Serve through this one only."),
    key_file: Optional[str] = typer.Option(None, "--key-file", metavar="FILE", help="With the "
                                           "cluster's key, as `openssl rand -hex 32` makes it; closed to "
                                           "other users. Needed."),
    threads: Optional[int] = typer.Option(None, "--threads", min=1, max=256, show_default=False,
                                          help="On which jobs are spread (default: one for each "
                                          "processor)."),
    jobs_max: int = typer.Option(64, "--jobs-max", min=1, max=100_000, help="Jobs at a time."),
    groups_max: int = typer.Option(64, "--groups-max", min=1, max=100_000,
                                   help="Communicators of one job."),
    memory: str = typer.Option("2G", "--memory", help="For one job; each of its communicators needs "
                               "8M for each of its ranks and 8M more."),
    total_memory: str = typer.Option("8G", "--total-memory", help="For all jobs together."),
    topology: Optional[str] = typer.Option(None, "--topology", metavar="FILE", help="All nodes of the "
                                           "cluster, as JSON; without one this node serves everybody."),
    name: Optional[str] = typer.Option(None, "--name", help="Which of them this one is."),
    metrics: Optional[str] = typer.Option(None, "--metrics", metavar="ADDR:PORT",
                                          help="Prometheus may ask here."),
    json_to: Optional[str] = json_option("Print JSON, one line when it is ready and one at its end, or "
                                         "write it to FILE."),
) -> None:
    if context.invoked_subcommand is not None:
        return
    from .service import serve

    with console.one_line("aggregator", AggregatorError, code=WRONG_LINE):
        text, place = read_topology(topology, name) if topology else (None, f":{DEFAULT_PORT}")
        if name and not topology:
            raise AggregatorError("--name belongs to --topology")
        address, port = parse_endpoint(listen or place, DEFAULT_PORT)
        options = Options(
            address, port, device or None, key_file, threads or 0, jobs_max, groups_max,
            _memory("--memory", memory), _memory("--total-memory", total_memory), text, name,
            parse_endpoint(metrics) if metrics else None)
    with console.one_line("aggregator", AggregatorError, Error, code=FOUND):
        serve(options, json_to)


@app.command(name="status")
def status(address: str = typer.Argument(..., metavar="ADDR:PORT",
                                         help="Where the node's --metrics listen.")) -> None:
    """Show the jobs, ranks, operations and refusals of a node."""
    from . import display

    with console.one_line("aggregator", AggregatorError, code=FOUND):
        display.status(address if "://" in address else f"http://{address}/metrics")


@app.command(name="job-key")
def job_key(
    key_file: str = typer.Option(..., "--key-file", help="The nodes' own key."),
    job: str = typer.Option("", "--job", metavar="NAME", show_default=False,
                            help="Any; the same name gives the same key, such as a scheduler's "
                            "number of the job (default: a name that no other job has)."),
) -> None:
    """Print the key of one job, for NEZHA_AGGREGATOR_JOB_KEY of all its ranks.

    Its holder can join that job at the nodes and no other. `nezha run` makes the key itself. Other
    launchers' jobs are given one where they are started, not in their ranks; with Slurm:
    export NEZHA_AGGREGATOR_JOB_KEY=$(nezha aggregator job-key --key-file key --job $SLURM_JOB_ID)
    """
    from nezha.queries import ask

    with console.one_line("aggregator", AggregatorError, Error, code=FOUND):
        answer = ask("job_key", {"key_file": key_file, "job": job})
        print(answer["job_key"])


def _memory(option: str, text: str) -> int:
    try:
        value = parse_size(text)
    except ValueError as error:
        raise AggregatorError(f"{option}: {error}") from None
    if value < 32 << 20:
        raise AggregatorError(f"{option} {text}: two ranks need 32M")
    return value
