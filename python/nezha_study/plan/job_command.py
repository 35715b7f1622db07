"""`nezha plan job`: what a training job computes, sends and waits for."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, Dict, Optional

import typer

from nezha_tools.cli.units import bytes_text, rate_text, time_text
from nezha_tools.cli.console import section, sentences
from nezha_tools.cli.conventions import json_option

from .answers import answer, one_sentence

HELP = """What an iteration of training computes, sends and waits for, and what would hide the traffic.

Fields may stand in a YAML file, too (--file), by the same names with _ for -; options win. Rates
need units: 400Gbit/s or 400G are bits, 50GB/s bytes.

\b
Examples:
  nezha plan job --params 80B --nodes 64 --gpus 8 --nics 8x400Gbit/s --accelerator H100 \\
      --seq 4096 --batch 1024 --zero 3
  nezha plan job --file job.yaml --calibration out/calibration.json
  nezha plan job --file job.yaml --second 100Gbit/s:20us --interference 0.27,0.05
"""


def _text(*names: str, text: str) -> Any:
    return typer.Option(None, *names, help=text)


def job(file: Optional[Path] = _text("--file", text="A YAML file with these fields."),
        params: Optional[str] = _text("--params", text="Parameters: 80B, 350M."),
        nodes: Optional[int] = _text("--nodes", text="Nodes."),
        gpus: Optional[int] = _text("--gpus", text="Accelerators of a node (8)."),
        nics: Optional[str] = _text("--nics", text="Of a node, as advertised: 8x400Gbit/s, 4x25GB/s."),
        accelerator: Optional[str] = _text("--accelerator", text="Names its peak and its links: "
                                                                 "H100, MI300X, ..."),
        peak: Optional[str] = _text("--peak", text="Or its peak: 312TFLOPS, dense."),
        intra: Optional[str] = _text("--intra", text="Or its links, one direction: 300GB/s."),
        seq: Optional[int] = _text("--seq", text="Tokens of a sequence."),
        batch: Optional[int] = _text("--batch", text="Sequences of an iteration, all accelerators "
                                                     "together."),
        micro_batch: Optional[int] = _text("--micro-batch", text="Sequences that a replica takes "
                                                                 "at a time."),
        recompute: Optional[bool] = typer.Option(None, "--recompute/--no-recompute",
                                                 help="The forward pass runs again for the "
                                                      "backward pass."),
        dtype: Optional[str] = _text("--dtype", text="Of the parameters: bf16 (default), fp16, fp32."),
        grad_dtype: Optional[str] = _text("--grad-dtype", text="Of gradients on the wire (default: "
                                                               "as --dtype)."),
        zero: Optional[int] = _text("--zero", text="ZeRO stage, 0 (default) to 3; 3 is fully sharded."),
        tensor: Optional[int] = _text("--tensor", text="Size of tensor groups, inside a node."),
        pipeline: Optional[int] = _text("--pipeline", text="Pipeline stages."),
        layers: Optional[int] = _text("--layers", text="Layers; for tensor and pipeline groups."),
        hidden: Optional[int] = _text("--hidden", text="Width of a layer; for the same."),
        mfu: Optional[float] = _text("--mfu", text="Reached part of the peak (0.5)."),
        efficiency: Optional[float] = _text("--efficiency", text="Reached part of advertised links "
                                                                 "(0.8)."),
        latency: Optional[str] = _text("--latency", text="Of a message between nodes (14us)."),
        intra_latency: Optional[str] = _text("--intra-latency", text="Of a message inside a node "
                                                                     "(3.4us)."),
        bucket: Optional[str] = _text("--bucket", text="Bytes of one collective: 25M, 1G (default: "
                                                       "by ZeRO's stage)."),
        overlap: Optional[float] = _text("--overlap", text="Part of the computing during which "
                                                           "data can travel (default: as ZeRO's "
                                                           "stage allows)."),
        second: Optional[str] = _text("--second", text="A second rail of every node: 100Gbit/s:20us."),
        interference: Optional[str] = _text("--interference", text="Parts of their rates that NICs "
                                                                   "and second rail lose while "
                                                                   "both run: 0.27,0.05."),
        adds: Optional[str] = _text("--adds", text="What a rank adds of other nodes' data, where "
                                                   "processors do it: 4GB/s (default: costs "
                                                   "nothing)."),
        calibration: Optional[Path] = _text("--calibration", text="Rails as nezha calibrate measured "
                                                                  "them, for --nics, --latency and "
                                                                  "--adds where they are not given."),
        json_to: Optional[str] = json_option()) -> None:
    from . import calibrated, job_report
    from .documents import read_document
    from .job_spec import READERS, read_job
    from ..sim import calibration as calibrations

    options = {name: value for name, value in locals().items() if name in READERS and value is not None}
    with one_sentence("job"):
        given = read_document(file, set(READERS)) if file is not None else {}
        given.update(options)
        if calibration is None:
            document = job_report.report(read_job(given), given)
        else:
            measured = calibrations.read(calibration)
            fields = calibrated.fields(measured.rails(), measured.rate_lost, measured.adds)
            asked = replace(read_job({**fields, **given}), nics_measured="nics" not in given)
            document = job_report.report(asked, {**fields, **given}, measured.known_as)
            document["assumptions"].append(calibrated.assumption(given, str(calibration)))
    answer("job", document, json_to, show)


def show(document: Dict[str, Any]) -> None:
    """The answer as tables and sentences."""
    _iteration(document)
    _traffic(document)
    hidden, switches = document["hidden_with"], document["in_network"]
    if hidden and hidden["nics"]:
        sentences([f"Hidden from {rate_text(hidden['rate'])} of a node on, as {document['rates']}: "
                   f"{hidden['nics']} NICs of {rate_text(hidden['of'])}."])
    elif hidden:
        sentences([f"No network hides it: {hidden['why']}."])
    if switches:
        sentences([f"If switches add up, a node's wire carries {switches['factor']:.3g} times "
                   f"less: {time_text(switches['seconds'])} instead of "
                   f"{time_text(switches['instead_of'])}."])
    _second(document["second_rail"])
    thumb = document["rule_of_thumb"]
    if thumb["between_s"]:
        text = (f"Rule of thumb (gradients twice, bandwidth alone, {bytes_text(thumb['bytes'])}): "
                f"{time_text(thumb['between_s'])} at the {document['rates']} rate")
        if document["rates"] == "advertised":
            text += f", {time_text(thumb['practical_s'])} at what is reached of it"
        slower = f"; {thumb['slower']:.3g} times as long as inside a node" if thumb["slower"] else ""
        sentences([text + slower + "."])
    sentences(f"Assumed: {text}." for text in document["assumptions"])


def _iteration(document: Dict[str, Any]) -> None:
    parts, memory, compute = document["iteration"], document["memory"], document["compute"]
    sentences([
        f"{document['accelerators']} accelerators, {document['replicas']} replicas, "
        f"{document['micro_batches']} micro batch(es) of {document['micro_batch']} sequence(s).",
        f"Model states: {memory['bytes_per_parameter']:g} bytes a parameter, "
        f"{bytes_text(memory['per_accelerator'])} on an accelerator without activations"
        + (f", of {bytes_text(memory['of'])}" + ("" if memory["fits"] else ": IT DOES NOT FIT")
           if memory["of"] else "") + ".",
        f"Computing: {compute['tflop']:.5g} TFLOP an accelerator at {compute['peak_tflops']:g} "
        f"TFLOPS x {compute['mfu']:g}."])
    section("an iteration", [{
        "part": name, "time": time_text(seconds), "%": f"{100 * seconds / parts['total']:.1f}",
    } for name, seconds in parts["parts"].items()] + [
        {"part": "total", "time": time_text(parts["total"]), "%": "100"}])
    sentences([f"Bottleneck: {parts['bottleneck']}."])


def _traffic(document: Dict[str, Any]) -> None:
    section("what one accelerator sends in an iteration", [{
        "what": row["what"],
        "bytes": bytes_text(row["bytes"]),
        "time": time_text(row["seconds"]),
        "latency": time_text(row["latency_s"]),
        "bandwidth": time_text(row["transfer_s"]),
        **_adding(row),
        "known as": row["known_as"], "how": row["how"],
    } for row in document["traffic"]])
    data = document["data_parallel"]
    hidden = min(data["seconds"], data["window"])
    sentences([f"Data parallel: {time_text(data['seconds'])}, of which {time_text(hidden)} can be "
               f"hidden: {time_text(data['exposed'])} exposed."])
    for operation in document["algorithms"]:
        section(f"{operation['collective']} of {operation['what']} by algorithm between nodes", [{
            "algorithm": row["algorithm"], "latency": time_text(row["latency_s"]),
            "bandwidth": time_text(row["transfer_s"]), **_adding(row),
            "total": time_text(row["seconds"]),
            "exposed": time_text(row["exposed"]), "not chosen by auto, because": row["left_out"],
        } for row in operation["rows"]])


def _adding(row: Dict[str, Any]) -> Dict[str, str]:
    return {"adding": time_text(row["adds_s"])} if row["adds_s"] else {}


def _second(second: Optional[Dict[str, Any]]) -> None:
    if second is None:
        return
    size = "no size" if second["threshold_bytes"] is None else f"{second['threshold_bytes']:.0f} B"
    limit = ("however slow it is, as no interference is given" if second["helps_below"] is None
             else f"up to {second['helps_below']:.2f} times")
    sentences([
        f"Second rail: the slower of the two is {second['ratio']:.3g} times slower, and helps {limit}. "
        f"Both pay from {size} on (Eq. 1); an accelerator's part of a bucket is "
        f"{second['part_bytes']:.0f} B.",
        (f"Both are used, {100 * second['shares'][0]:.1f} : {100 * second['shares'][1]:.1f}"
         if second["splits"] else "The balancer leaves operations whole")
        + f": data parallel {time_text(second['before'])} without it, {time_text(second['after'])} "
          "with it."])
