"""`nezha bench train`: a real model's gradients over one rail, two and unequal ones, beside Gloo."""

from __future__ import annotations

from pathlib import Path
from typing import List, Optional

import typer

from . import training_report
from .perform import perform_in_labs
from .training_run import MODELS, Request, run
from ..cli.values import read_rates
from ..cli.conventions import json_option

HELP = f"""Train a model in labs: images per second, time in communication, sizes of the all-reduces.

Every --rates builds a lab. In the first one Gloo runs on the fastest rail, then Nezha on that rail
alone, then Nezha on all; in the others, Nezha on all. The images are random, everything else is as in a
real training: the model's shapes, DistributedDataParallel, its buckets.

All ranks compute on this machine's cores, so a real step of a large model takes long and steals time
from communication. With --replay one step is recorded by one rank alone; then only its all-reduces are
run, at their recorded times, with sleeps where the step computed. The output says which was run.

\b
Models: {', '.join(MODELS)}

\b
Examples:
  nezha bench train --model alexnet --replay
  nezha bench train --model vgg11 --batch 64 --replay --schedule vgg11.json     record once, use again
  nezha bench train --model resnet50 --replay --compute-scale 0.1    as if nodes computed 10 x as fast
  nezha bench train --model resnet50 --batch 2 --steps 2 --nodes 2                 the real training
  nezha bench train --model resnet101 --replay --nodes 2 --ranks-per-node 4 --flat  hosts of several ranks
"""


def train(
    model: str = typer.Option(..., "--model", help=f"{', '.join(MODELS)}."),
    batch: int = typer.Option(32, "--batch", min=1, help="Images a step, on each rank."),
    nodes: int = typer.Option(4, "--nodes", min=2, help="Nodes of each lab."),
    ranks_per_node: int = typer.Option(1, "--ranks-per-node", min=1, help="Ranks on each node."),
    flat: bool = typer.Option(False, "--flat", help="Also Nezha on all rails as if every rank were a "
                              "host (hierarchy=off), launched in turn with the other."),
    rates_texts: List[str] = typer.Option(["1gbit,1gbit", "1gbit,500mbit"], "--rates",
                                          help="One for each rail of a lab; repeatable, a lab each."),
    steps: int = typer.Option(5, "--steps", min=1, help="Timed steps of each configuration."),
    replay: bool = typer.Option(False, "--replay", help="Only the all-reduces, at the times of a "
                                "recorded step."),
    compute_scale: float = typer.Option(1.0, "--compute-scale", help="With --replay: sleep so many "
                                        "times the recorded computation."),
    schedule: Optional[Path] = typer.Option(None, "--schedule", help="The recorded step: read when "
                                            "the file exists, else recorded into it."),
    bucket_mb: Optional[float] = typer.Option(None, "--bucket-mb", help="DDP's bucket_cap_mb (default: "
                                              "its own, 25, with a first bucket of 1)."),
    threads: Optional[int] = typer.Option(None, "--threads", min=1, help="Of a rank's computation "
                                          "(default: this machine's cores, shared by the ranks)."),
    gloo: bool = typer.Option(True, "--gloo/--no-gloo", help="Also Gloo, on the fastest rail."),
    json_to: Optional[str] = json_option(),
    plot_to: Optional[Path] = typer.Option(None, "--plot", help="Write a picture: profile and "
                                           "images per second."),
) -> None:
    perform_in_labs(
        "bench train",
        lambda: Request(model, batch, nodes, ranks_per_node, flat,
                        [read_rates(text) for text in rates_texts], steps, replay,
                        bucket_mb, compute_scale, schedule, threads, gloo),
        run, lambda document: training_report.publish(document, json_to, plot_to))
