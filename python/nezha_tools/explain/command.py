"""`nezha explain`: the plan of an operation, without running it."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Dict, List, Optional

import typer

from ..cli import console
from ..cli.sizes import parse_size
from ..cli.errors import PlanError
from ..cli.units import gbps, parse_rails
from ..cli.conventions import FOUND, WRONG_LINE, App, json_option

_HELP = """How an operation would be carried out, and why so.

Shows the algorithm with its cost against the others, the chunks, how the bytes are divided among the
rails, and with --schedule the steps of one rank. With --print it writes the steps of all ranks
instead, as algorithm_file takes them: a beginning for an algorithm of your own. Sizes: 65536, 64K, 1M,
1G (binary); --rates has RATE:LATENCY of each rail: 1gbit:30us, 100G:5us, 25GB/s:2us.

\b
Examples:
  nezha explain all_reduce --bytes 1M --world-size 4 --rates 1gbit:30us,500mbit:30us
  nezha explain all_reduce --bytes 64K --world-size 4 --schedule --rank 0
  nezha explain broadcast --bytes 8M --world-size 8 --algorithm chain --json
  nezha explain all_reduce --bytes 8M --world-size 16 --ranks-per-host 4
  nezha explain all_gather --bytes 64K --ranks-per-host 1,2,4
  nezha explain all_reduce --bytes 1M --world-size 4 --ranks-per-host 4
  nezha explain all_reduce --bytes 1M --world-size 16 --ranks-per-host 4 --deterministic
  nezha explain all_reduce --world-size 3 --algorithm ring --print > mine.txt
  nezha explain all_reduce --world-size 3 --algorithm-file mine.txt
"""

app = App()


@app.command(help=_HELP)
def explain(collective: str = typer.Argument(..., help="all_reduce, all_gather, broadcast, ..."),
            size: str = typer.Option("1M", "--bytes", "-b", help="Of the whole array."),
            dtype: str = typer.Option("float32", "--dtype", "-d", help="Of the elements."),
            world_size: int = typer.Option(4, "--world-size", "-n", min=1, help="Ranks of the job."),
            ranks_per_host: str = typer.Option("1", "--ranks-per-host", metavar="L",
                                               help="Of the world; 1,2,4 for hosts that differ."),
            shm: bool = typer.Option(True, "--shm/--no-shm",
                                     help="Ranks of a host share memory, or shm=off."),
            deterministic: bool = typer.Option(False, "--deterministic",
                                               help="With deterministic=on: sums of floating point do "
                                                    "not follow from hosts and rails."),
            rates: str = typer.Option("1gbit:30us,1gbit:30us", "--rates",
                                      help="RATE:LATENCY of each rail, one way."),
            algorithm: Optional[str] = typer.Option(None, "--algorithm",
                                                    help="Instead of the cheapest."),
            algorithm_file: Optional[Path] = typer.Option(None, "--algorithm-file",
                                                          help="Or by these schedules of yours."),
            schedule: bool = typer.Option(False, "--schedule", help="Also the steps."),
            rank: int = typer.Option(0, "--rank", min=0, help="Whose steps."),
            root: int = typer.Option(0, "--root", min=0, help="Where the collective has one."),
            prints: bool = typer.Option(False, "--print", help="Only the steps of all ranks."),
            json_to: Optional[str] = json_option()) -> None:
    from nezha import errors
    from nezha.queries import ask
    from .offload import share_inside
    from .algorithm_command import read_algorithm

    with console.one_line("explain", errors.Error, PlanError, ValueError, code=WRONG_LINE):
        rails = [{"rate_gbps": gbps(rate), "latency_us": 1e6 * latency_s}
                 for rate, latency_s in parse_rails("rates", rates)]
        request: Dict[str, Any] = {
            "collective": collective, "bytes": 0 if collective == "barrier" else parse_size(size),
            "dtype": dtype, "world_size": world_size, **_costs_of(rails), "shm": shm,
            "deterministic": deterministic, "schedule": schedule, "rank": rank, "root": root,
            "print": prints}
        if ranks_per_host != "1":
            request["host_of"] = hosts_of(ranks_per_host, world_size)
            request["world_size"] = len(request["host_of"])
        if algorithm is not None and algorithm_file is not None:
            raise ValueError("give --algorithm NAME or --algorithm-file FILE, and not both")
        if algorithm is not None:
            request["algorithm"] = algorithm
        if algorithm_file is not None:
            request["algorithm_text"] = read_algorithm(algorithm_file)
        answer = ask("explain", request)
        together = max(map(request.get("host_of", []).count, request.get("host_of", [])), default=1)
        if len(rails) > 1 and request["bytes"] > 0 and not prints:
            answer["division"] = ask("divide", {"bytes": request["bytes"], "rails": rails})
        if collective == "all_gather" and together > 1:
            answer["offload"] = share_inside(together, ask("fabric"))
    with console.one_line("explain", code=FOUND):
        console.answer(answer, json_to, _show)


def _costs_of(rails: List[Dict[str, float]]) -> Dict[str, float]:
    """What the costs of algorithms follow from: the rails' mean rate, the fastest one's, and the shortest
    latency, for short messages take that rail."""
    rates = [rail["rate_gbps"] for rail in rails]
    return {"rails": len(rails), "rate_gbps": sum(rates) / len(rates), "fastest_gbps": max(rates),
            "latency_us": min(rail["latency_us"] for rail in rails)}


def hosts_of(text: str, world_size: int) -> List[int]:
    """By rank, the number of its host: `text` is the ranks of each host, or of every host of a world of
    `world_size`. Raises ValueError."""
    numbers = text.split(",")
    if not all(number.isdecimal() and int(number) > 0 for number in numbers):
        raise ValueError(f"--ranks-per-host {text}: want a number, or one for each host, as in 1,2,4")
    if len(numbers) > 1:
        return [host for host, number in enumerate(numbers) for _ in range(int(number))]
    if world_size % int(text) != 0:
        raise ValueError(f"--ranks-per-host {text}: {world_size} ranks do not divide so; name each "
                         "host's, as in 1,2,4")
    return [rank // int(text) for rank in range(world_size)]


def ranks_text(ranks: List[int]) -> str:
    """"0-3" for ranks that follow each other, and else all of them."""
    if len(ranks) > 2 and ranks == list(range(ranks[0], ranks[-1] + 1)):
        return f"{ranks[0]}-{ranks[-1]}"
    return ", ".join(map(str, ranks))


def _who_sends(algorithm: str) -> str:
    """Which ranks of a host talk to other hosts."""
    if algorithm == "leaders":
        return "The leader of each host sends for it."
    if algorithm in ("hierarchical", "columns"):
        return ("All ranks of a host send to other hosts, each its part; leaders are for the algorithm "
                "leaders.")
    return f"{algorithm} knows nothing of hosts; leaders are for the algorithm leaders."


def _which_rail(division: Dict[str, Any]) -> str:
    """By which rule a transfer gets its rail (docs/balancing.md), a sentence."""
    if division["quickest"]:
        return "A transfer takes the rail on which its like took the least time (rule: times)."
    if division["splits"]:
        return "A transfer takes the rail that would finish it first (rule: backlog)."
    return f"All transfers take rail {division['single_rail']} (rule: share)."


def _inside(answer: Dict[str, Any]) -> List[str]:
    """What carries bytes inside the hosts, a sentence."""
    return {
        "memory": ["Inside a host its ranks work in their memory and send nothing; the steps inside it "
                   "are those of a host that has none."],
        "messages": ["Inside a host its ranks send messages."]}.get(answer["inside"], [])


def _show(answer: Dict[str, Any]) -> None:
    if "algorithm_text" in answer:
        typer.echo(answer["algorithm_text"], nl=False)
        return
    typer.echo(answer["text"])
    if "division" in answer:
        division = answer["division"]
        console.sentences([f"Rails, as the policy {division['why']}.", _which_rail(division)])
    if "hosts" in answer:
        console.section("hosts", [
            {"host": number, "ranks": ranks_text(host["ranks"]), "leader": host["leader"]}
            for number, host in enumerate(answer["hosts"])])
        console.sentences([_who_sends(answer["algorithm"]), *_inside(answer)])
    if "offload" in answer:
        console.sentences([answer["offload"]["text"]])
    if "schedule_text" in answer:
        typer.echo(answer["schedule_text"])
