"""`nezha lab`: build, use, disturb and remove a multi-rail cluster on this machine.

Every command ends with 0, with 1 or 2 and one line on stderr, or, `exec`, with the code of its program.
"""

from __future__ import annotations

import contextlib
from typing import Any, ContextManager, Dict, List, Optional

import typer

from .. import lab as labs

from ..cli import console
from ..cli.values import read_rates
from ..cli.conventions import FOUND, OURS, WRONG_LINE, App, RunsProgram, json_option

app = App(no_args_is_help=True, help="A multi-rail cluster on one machine.")

_DEFAULT_NAME = "default"
_NAME = typer.Option(_DEFAULT_NAME, "--name", help="Which lab; several can be up at once.")


def _one_line_errors(code: int = FOUND) -> ContextManager[None]:
    return console.one_line("lab", labs.LabError, code=code)


@app.command()
def up(nodes: int = typer.Option(4, "--nodes", help="Hosts."),
       rates_text: str = typer.Option("1gbit,500mbit", "--rates", "-r",
                                      help="One for each rail: 1gbit, 500mbit, none; ofi:1gbit "
                                      "for one used through libfabric; agg:1gbit for one with an "
                                      "aggregation node at its switch; ofi:shm."),
       ranks_per_node: int = typer.Option(1, "--ranks-per-node", min=1,
                                          help="Ranks that `exec all` and `nezha run` start on each."),
       name: str = _NAME,
       mtu: int = typer.Option(1500, "--mtu", help="Of every rail, bytes."),
       congestion_control: str = typer.Option("cubic", "--congestion-control", "-c",
                                              help="Of TCP on every node; one that the kernel has."),
       shaping: str = typer.Option("bulk", "--shaping", help="bulk: cheap, accurate for operations of "
                                   "some MB; exact: from 256 KB on, for over twice the "
                                   "processor time. Rails up to 250 Mbit/s are always exact."),
       queue_ms: float = typer.Option(10.0, "--queue-ms", help="Depth of each port's queue."),
       burst: Optional[int] = typer.Option(None, "--burst", help="Bucket, bytes; default: chosen "
                                           "by --shaping from each rate."),
       mode: Optional[str] = typer.Option(None, "--mode", help="root, userns or loopback; "
                                          "default: the best allowed here."),
       agg_tree: Optional[str] = typer.Option(None, "--agg-tree", metavar="LxN", help="A tree at the "
                                              "agg: rail: 2x3 is two leaves with three nodes each."),
       ) -> None:
    """Build a lab that stays until `down`."""
    with _one_line_errors(WRONG_LINE):
        lab = labs.Lab(nodes, read_rates(rates_text), name=name, mtu=mtu,
                       congestion_control=congestion_control, shaping=shaping,
                       queue_ms=queue_ms, burst=burst,
                       mode=mode, agg_tree=agg_tree, persist=True,
                       ranks_per_node=ranks_per_node)
    with _one_line_errors():
        lab.up()
        typer.echo(f"lab {name!r} is up ({lab.mode}): {nodes} nodes, rails {', '.join(lab.rails())}, "
                   f"congestion control {lab.state.congestion_control or 'as on the host'}")
        for each in lab.state.aggregators:
            typer.echo(f"aggregation node {each.name} at {each.endpoint}")
        capacity = lab.capacity()
        if capacity is not None:
            typer.echo(capacity.sentence())


@app.command()
def down(name: str = _NAME,
         everything: bool = typer.Option(False, "--all", help="Every lab of this user.")) -> None:
    """Remove a lab and every process in it; no error when there is none."""
    with _one_line_errors():
        for each in labs.names() if everything else [name]:
            existed = labs.tear_down(each)
            typer.echo(f"lab {each!r} " + ("is down" if existed else "was not up"))


@app.command(cls=RunsProgram)
def exec(node: str = typer.Argument(..., help="Number of a node, or 'all'."),
         command: List[str] = typer.Argument(..., metavar="COMMAND"),
         name: str = _NAME) -> None:
    """Run a command on one node, or on all at once as the ranks of one world.

    With `all` each process gets RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR, MASTER_PORT and NEZHA_RAILS.
    The exit code is that of the first rank that failed: 128 + signal when it was killed, 127 when the
    command could not be started. 125: Nezha itself failed, or the command line is bad.
    """
    with _one_line_errors(OURS):
        lab = labs.Lab.attach(name)
        if node != "all" and not node.isdecimal():
            raise labs.LabError(f"node {node!r}: want a number or 'all'")
        children = []
        code = 0
        try:
            if node == "all":
                for rank in range(lab.ranks):
                    children.append(lab.popen(lab.node_of(rank), command, env=lab.rank_env(rank)))
            else:
                children.append(lab.popen(int(node), command))
            for child in children:
                code = code or child.wait()
        except OSError as error:
            console.complain("lab", f"{command[0]}: {error.strerror}")
            raise typer.Exit(127) from None
        finally:
            for child in children:
                if child.poll() is None:
                    child.terminate()
        raise typer.Exit(code if code >= 0 else 128 - code)


@app.command()
def shape(rates: str = typer.Argument(..., help="e.g. 1gbit,500mbit; the last one repeats."),
          name: str = _NAME) -> None:
    """New rates of all rails, live."""
    with _one_line_errors(WRONG_LINE):
        values = [labs.parse_rate(rate) for rate in rates.split(",")]
    with _one_line_errors():
        labs.Lab.attach(name).shape(values)


@app.command()
def slow(node: int, rail: str, rate: str, name: str = _NAME) -> None:
    """New rate of one node's port on one rail: a degraded device."""
    with _one_line_errors():
        labs.Lab.attach(name).slow(node, rail, rate)


@app.command()
def cut(node: int, rail: str, name: str = _NAME,
        silent: bool = typer.Option(False, "--silent", help="Drop packets, keep the carrier."),
        direction: str = typer.Option("both", "--direction", help="With --silent: out (what the "
                                      "node sends), in, or both.")) -> None:
    """Cut one node off one rail."""
    with _one_line_errors():
        labs.Lab.attach(name).cut(node, rail, silent=silent, direction=direction)


@app.command()
def restore(node: int, rail: str, name: str = _NAME) -> None:
    """Undo slow and cut of one node on one rail."""
    with _one_line_errors():
        labs.Lab.attach(name).restore(node, rail)


@app.command()
def status(name: Optional[str] = typer.Option(None, "--name", help="Default: every lab."),
           json_to: Optional[str] = json_option()) -> None:
    """Rates, queues, buckets, counters and faults."""
    with _one_line_errors():
        found = [labs.Lab.attach(name).status()] if name else _all_that_last()
        console.answer(found, json_to, _show)


def _show(found: List[Dict[str, Any]]) -> None:
    if not found:
        typer.echo("no lab is up")
    for each in found:
        _print(each)


def _all_that_last() -> List[Dict[str, Any]]:
    found = []
    for each in labs.names():
        with contextlib.suppress(labs.LabError):  # it went down while we looked
            found.append(labs.Lab.attach(each).status())
    return found


def _state_of(port: Dict[str, Any]) -> str:
    words: List[str] = []
    if port["cut"] == "link":
        words.append("cut")
    elif port["cut"] != "no":
        words.append(f"silently cut ({port['cut']})")
    words += [f"{b['protocol']} {b['port'] or ''} blocked".replace("  ", " ")
              for b in port["blocks"]]
    return ", ".join(words) or "up"


def _print(lab: Dict[str, Any]) -> None:
    title = (f"lab {lab['name']} ({lab['mode']}), {lab['shaping']} wires, queue {lab['queue_ms']:g} ms, "
             f"{lab['congestion_control'] or 'congestion control of the host'}")
    if not lab["shaped"]:
        title += ", UNSHAPED"
    cells = []
    for node in lab["nodes"]:
        for port in node["ports"]:
            mtu = f"{port['mtu']}" + (f" (path {port['path_mtu']})"
                                      if port["path_mtu"] != port["mtu"] else "")
            cells.append([
                str(node["node"]), str(port["rail"]), port["kind"], port["device"], port["address"], mtu,
                labs.format_rate(port["rate_bps"]), str(port["burst_bytes"]),
                str(port["queue_bytes"]), str(port["tx_bytes"]), str(port["rx_bytes"]),
                str(port["tx_drops"] + port["rx_drops"]), _state_of(port)])
    console.table(["node", "rail", "kind", "device", "address", "mtu", "rate", "burst", "queue", "sent",
                   "received", "dropped", "state"], cells, title, keys=2)
    for each in lab["aggregators"]:
        serves = f", serves {', '.join(each['serves'])}" if each["serves"] else ""
        process = f"process {each['pid']}" if each["alive"] else "does not run"
        typer.echo(f"aggregation node {each['name']} of rail {each['rail']} at {each['address']}{serves}"
                   f": {process}")
