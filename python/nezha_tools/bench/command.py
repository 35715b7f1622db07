"""`nezha bench`: nccl-tests' flags and columns, with rails, limits and costs beside them."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any, Callable, Dict, List, Optional

import typer

from . import collective_report
from .libraries.settings import parse_peers
from .perform import perform
from .reference import Reference, dtype_name, itemsize, numpy_dtype
from .collective_run import Request, run_in_lab, run_in_world
from ..cli.sizes import parse_size, size_list
from .spec import IN_PLACE, REDUCTIONS, BenchSpec
from . import (aggregation_command as bench_aggregation, interference_command as bench_interference,
               matvec_command as bench_matvec, messages_command as bench_messages,
               options as bench_options, p2p_command as bench_p2p, pieces_command as bench_pieces,
               train_command as bench_train)
from ..cli.conventions import App, Group, json_option
from ..cli.progress import Step
from ..cli.launched import asked, launched
from ..cli.values import CONFIG, read_rates, settings


class _AllReduceByDefault(Group):
    """`nezha bench --compare gloo` means `nezha bench all_reduce --compare gloo`."""

    def parse_args(self, ctx: Any, args: List[str]) -> List[str]:
        if args and args[0].startswith("-") and args[0] not in ("-h", "--help"):
            args = ["all_reduce", *args]
        return super().parse_args(ctx, args)


app = App(cls=_AllReduceByDefault, no_args_is_help=True,
          help="Measure collectives, in a launched world or in a lab built for it.")


def _option(default: Any, *names: str, **rest: Any) -> Any:
    return typer.Option(default, *names, **rest)


_MIN = _option("4", "-b", "--minbytes", help="Smallest size; 8M is 8 x 1024 x 1024.")
_MAX = _option("64M", "-e", "--maxbytes", help="Largest size.")
_FACTOR = _option(4, "-f", "--stepfactor", help="Each size is so many times the one before.")
_ITERATIONS = _option(None, "--iters", min=1,
                      help="Timed operations a size (default: 2 s, 5 to 2000 of them).")
_WARMUP = _option(None, "-w", "--warmup_iters", min=1, help="Warm-up (default: by time).")
_DTYPE = _option("float32", "-d", "--datatype", help="float32, bfloat16, float8_e4m3fn, int8, ...")
_OP = _option("sum", "-o", "--op", help="sum, avg, prod, min, max, band, bor, bxor.")
_CHECK = _option(1, "-c", "--check", min=0, help="Checked operations a size.")
_ROOT = _option(0, "--root", min=0, help="Root of broadcast, reduce, gather, scatter.")
_NODES = _option(None, "--nodes", min=1,
                 help="Nodes of the lab to build (default: 4; in a launched world none is built).")
_RANKS_PER_NODE = _option(None, "--ranks-per-node", min=1, help="Ranks on each node of the lab "
                          "(default: 1).")
_FLAT = _option(False, "--flat", help="To compare: as if every rank were a host (hierarchy=off).")
_RATES = _option("1gbit,1gbit", "--rates",
                 help="One for each rail of the lab; ofi:1gbit for one used through libfabric; "
                 "agg:1gbit for one with an aggregation node; ofi:shm.")
_POLICY = _option(None, "--policy", help="pull, table, static, round_robin.")
_ONE_RAIL = _option(None, "--one-rail", min=0, help="Use only this rail, counted from 0.")
_ALGORITHM = _option(None, "--algorithm", help="ring, halving_doubling, ... (default: by cost).")
_GAIN = _option(True, "--gain/--no-gain",
                help="In a lab, also measure each rail alone, for the gain column.")
_LAUNCHES = _option(1, "--launches", min=1, help="In a lab, start the world so many times.")
_IN_PLACE = _option(True, "--in-place/--out-of-place", help="Where the result goes.")
_COMPARE = _option(None, "--compare", help="Also measure, in the same lab: gloo, openmpi, mpich, "
                   "intelmpi, mlx; several with commas. Each is measured with the settings that a "
                   "specialist would try; its default and its best are shown, all are in the JSON. "
                   "openmpi-default or openmpi-ring: that one only.")
_TORCH = _option(None, "--torch-python", help="A python that has torch, for --compare gloo.")
_CORES = _option(None, "--cores-per-rail", min=1, help="Restrict the whole process of each rank to so "
                 "many processors times its number of rails (no rail has processors of its own); also "
                 "measures without the limit.")
_JSON = json_option()
_PLOT = _option(None, "--plot", help="Write a picture of size against bus bandwidth.")


def _spec(collective: str, given: Dict[str, Any], config: Dict[str, str]) -> BenchSpec:
    """The spec that the options ask for. Raises ValueError or BenchError before anything starts."""
    dtype = dtype_name(given["datatype"])
    sizes = size_list(parse_size(given["minbytes"]), parse_size(given["maxbytes"]),
                      given["factor"], itemsize(dtype))
    numpy_dtype(dtype)
    if collective in REDUCTIONS:
        Reference(dtype, given["op"], (given["nodes"] or 4) * (given["ranks_per_node"] or 1), 0)
    return BenchSpec(
        sizes=sizes if collective != "barrier" else [0], collective=collective, dtype=dtype,
        op=given["op"], iterations=given["iterations"], warmup=given["warmup"],
        checks=given["check"], root=given["root"], algorithm=given["algorithm"],
        in_place=given["in_place"] if collective in IN_PLACE else collective == "broadcast",
        config=config)


def _run(collective: str, context: typer.Context, given: Dict[str, Any]) -> None:
    def prepare() -> Callable[[Step], Any]:
        options, world = asked(context), launched()
        bench_options.check(collective, options, given)
        in_lab = world is None or (world.world_size == 1 and given["nodes"] is not None)
        if in_lab:
            bench_options.check_in_lab(options, given)
        elif world is not None:
            bench_options.check_in_world(world, options, given)
        config = settings(given["config"], bench_options.taken(given, in_lab))
        if given["policy"] is not None:
            config["policy"] = given["policy"]
        if given["flat"]:
            config["hierarchy"] = "off"
        request = Request(
            _spec(collective, given, config), nodes=given["nodes"] or 4,
            ranks_per_node=given["ranks_per_node"] or 1, rails=read_rates(given["rates_text"]),
            one_rail=given["one_rail"], gain=given["gain"], launches=given["launches"],
            peers=parse_peers(given["compare"] or ""),
            torch_python=given["torch_python"], cores_per_rail=given["cores_per_rail"])
        return partial(run_in_lab if in_lab else run_in_world, request)

    perform("bench", prepare, lambda report: collective_report.publish(report, given["json_to"],
                                                                       given["plot_to"]))


def _command(collective: str) -> Callable[..., None]:
    """The command that measures `collective`. All have the same options."""

    def command(
        context: typer.Context, minbytes: str = _MIN, maxbytes: str = _MAX, factor: int = _FACTOR,
        iterations: Optional[int] = _ITERATIONS, warmup: Optional[int] = _WARMUP,
        datatype: str = _DTYPE, op: str = _OP, check: int = _CHECK, root: int = _ROOT,
        nodes: Optional[int] = _NODES, ranks_per_node: Optional[int] = _RANKS_PER_NODE,
        flat: bool = _FLAT, rates_text: str = _RATES, policy: Optional[str] = _POLICY,
        one_rail: Optional[int] = _ONE_RAIL, algorithm: Optional[str] = _ALGORITHM,
        gain: bool = _GAIN, launches: int = _LAUNCHES, in_place: bool = _IN_PLACE,
        compare: Optional[str] = _COMPARE, torch_python: Optional[str] = _TORCH,
        cores_per_rail: Optional[int] = _CORES,
        config: List[str] = CONFIG, json_to: Optional[str] = _JSON,
        plot_to: Optional[Path] = _PLOT,
    ) -> None:
        _run(collective, context, dict(locals()))

    command.__doc__ = f"Measure {collective}."
    return command


for _name in ("all_reduce", "broadcast", "all_gather", "reduce_scatter", "reduce", "gather", "scatter",
              "all_to_all", "barrier"):
    app.command(_name)(_command(_name))
app.command("train", help=bench_train.HELP)(bench_train.train)
app.command("messages", help=bench_messages.HELP)(bench_messages.messages)
app.command("matvec", help=bench_matvec.HELP)(bench_matvec.matvec)
app.command("pieces", help=bench_pieces.HELP)(bench_pieces.pieces)
app.command("p2p", help=bench_p2p.HELP)(bench_p2p.p2p)
app.command("interference", help=bench_interference.HELP)(bench_interference.interference)
app.command("switch", help=bench_aggregation.SWITCH_HELP)(bench_aggregation.switch)
app.command("table1", help=bench_aggregation.TABLE_HELP)(bench_aggregation.table1)
