"""What `nezha sim` and `nezha calibrate` print for people."""

from __future__ import annotations

from typing import Any, Dict, List, Sequence

from nezha_tools.cli.sizes import format_size
from nezha_tools.cli.console import section, sentences
from nezha_tools.cli.units import bytes_text, time_text

Document = Dict[str, Any]


def collective(document: Document) -> None:
    """Times, their parts, and what rails do."""
    mixed = any(row["ranks"] > row["hosts"] for row in document["rows"])
    section(document["collective"], [{
        "hosts": row["hosts"], **({"ranks": row["ranks"]} if mixed else {}),
        "size": format_size(row["size"]), "algorithm": row["algorithm"],
        "time": _time(row["time_us"]), **(_beside_flat(row) if mixed else {}),
        "wire": _time(row["parts_us"]["wire_us"]),
        "idle": _time(row["parts_us"]["idle_us"]), "adding": _time(row["parts_us"]["adding_us"]),
        "shares of rails (%)": " ".join(f"{100 * rail['share']:.0f}" for rail in row["rails"]),
        "ports idle (%)": " ".join(f"{100 * rail['mean_port_idle_us'] / row['time_us']:.0f}"
                                   if row["time_us"] else "-" for rail in row["rails"]),
        "known as": row["known_as"] + ("" if row["measured_us"] is None
                                       else f": {_time(row['measured_us'])}"),
    } for row in document["rows"]], keys=3 if mixed else 2)
    sentences(sorted({f"ROUGH: {row['rough']}." for row in document["rows"] if row["rough"]}))
    if mixed:
        sentences(["Flat: what the library runs with hierarchy=off, on the same hosts."])
    sentences(["Wire: the busiest port at work; idle: the rest of its time (latency, waiting, adding)."])
    sentences(f"Assumed: {each}." for each in document["assumptions"])


def _beside_flat(row: Document) -> Dict[str, str]:
    flat = row["flat"]
    return {"flat": flat["algorithm"] if flat else "the same",
            "its time": _time(flat["time_us"]) if flat else "",
            "times as fast": f"{flat['time_us'] / row['time_us']:.2f}" if flat else "",
            "inside": _time(row["parts_us"]["inside_us"])}


def balancer(document: Document) -> None:
    """What policy table converged to, beside policy pull and the best rail alone."""
    section("all_reduce", [{
        "hosts": row["hosts"], "size": format_size(row["size"]), "algorithm": row["algorithm"],
        "table": row["state"], "shares (%)": _percent(row["shares"]),
        "operations": f"more than {row['operations_run']}" if row["operations"] is None
        else str(row["operations"]),
        "first": _time(row["first_us"]), "then": _time(row["time_us"]),
        "pull": _time(row["pull_us"]), "its shares (%)": _percent(row["pull_shares"]),
        "best rail alone": _time(min(row["alone_us"])),
    } for row in document["rows"]], keys=2)
    sentences(["Operations: after so many the shares stay within 1 % of what they are in the end."])
    sentences(f"Assumed: {each}." for each in document["assumptions"])


def aggregation(document: Document) -> None:
    """Over hosts, through nodes, and the library's way."""
    section(f"all_reduce, nodes of {document['radix']} children at rail {document['rail']}", [{
        "hosts": row["hosts"], "size": format_size(row["size"]), "algorithm": row["algorithm"],
        "over hosts": _time(row["hosts_us"]), "shares (%)": _percent(row["hosts_shares"]),
        "through nodes": _time(row["nodes_us"]), "levels": row["levels"],
        "library's way": {"hosts": "hosts", "node": "nodes", "both": "both"}[row["way"]],
        "nodes' part (%)": _percent([row["share"]]), "operations": row["operations"],
        "time": _time(row["time_us"]), "times as fast": f"{row['hosts_us'] / row['time_us']:.2f}",
    } for row in document["rows"]], keys=2)
    sentences(["Operations: after so many the nodes' part stays within 1 %."])
    sentences(f"Assumed: {each}." for each in document["assumptions"])


def scale(document: Document) -> None:
    """Every algorithm, and what was multiplied."""
    mixed = any(row["ranks"] > row["hosts"] for row in document["rows"])
    section(f"{format_size(document['size'])}, rails {document['rates']}", [{
        "hosts": row["hosts"], **({"ranks": row["ranks"]} if mixed else {}),
        "collective": row["collective"], "algorithm": row["algorithm"],
        "time": _time(row["time_us"]) if "time_us" in row else "refused",
        "idle": _time(row["parts_us"]["idle_us"]) if "time_us" in row else "",
        "a host sends at most": bytes_text(sum(rail["most_bytes_of_a_host"] for rail in row["rails"]))
        if "time_us" in row else "",
        "waves": row.get("waves", ""), "run": row.get("waves_run", ""),
    } for row in document["rows"]], keys=3)
    sentences(sorted({f"{row['algorithm']} of {row['collective']}: {row['refused']}"
                      for row in document["rows"] if "refused" in row}))
    sentences(f"Assumed: {each}." for each in document["assumptions"])


def study(document: Document) -> None:
    """Predicted beside measured."""
    for case in document["cases"]:
        section(", ".join(case["rails"]), [{
            "hosts": row["hosts"], "size": format_size(row["size"]), "algorithm": row["algorithm"],
            "measured": _time(row["measured_us"]), "predicted": _time(row["predicted_us"]),
            "error": f"{100 * row['error']:+.1f} %",
        } for row in case["rows"]], keys=3)
        calibration(case["calibration"])
    section("error by size", [{
        "size": format_size(row["size"]), "median (%)": f"{100 * row['median_error']:.1f}",
        "worst (%)": f"{100 * row['worst_error']:.1f}"} for row in document["by_size"]])
    sentences([f"Processes that wanted a processor, for each: {document['load']:.1f}; above 1 the "
               "processors, and not the wires, decide how long short operations take."])
    sentences([f"Error: median {100 * document['median_error']:.1f} %, worst "
               f"{100 * document['worst_error']:.1f} %; fitted to each rail alone on "
               f"{' and '.join(map(str, document['fitted']['hosts']))} hosts."])


def calibration(document: Document) -> None:
    """Costs of rails."""
    rows: List[Dict[str, str]] = [{
        "rail": rail["name"], "rate (Gbit/s)": f"{rail['rate_gbps']:.4g}",
        "latency": _time(rail["latency_us"]), "bucket": bytes_text(rail["burst_bytes"]),
        "fits within": f"{100 * rail['fit_error']:.1f} %",
    } for rail in document["rails"]]
    section("rails", rows)
    by_dtype = ", ".join(f"{dtype} {rate:.3g}" for dtype, rate in document["adds_by_dtype"].items())
    if by_dtype:
        sentences([f"Adds, in GB/s: {by_dtype}."])
    sentences([f"A message costs a processor {_time(document['gap_us'])}; it adds "
               f"{document['adds_gb_per_s']:.3g} GB/s ({document['adds']})."])
    for host, parts in enumerate(document["ports"] or []):
        sentences([f"Rail {rail['name']} of host {host} has {100 * part:.0f} % of the usual rate."
                   for rail, part in zip(document["rails"], parts) if part < 1])
    inside = document["inside"]
    if inside:
        sentences([f"Among {inside['ranks']} ranks of a host a message takes "
                   f"{_time(inside['latency_us'])}, and each rank sends {inside['rate_gb_per_s']:.3g} "
                   "GB/s."])


def _percent(shares: Sequence[float]) -> str:
    return " ".join(f"{100 * share:.0f}" for share in shares)


def _time(microseconds: float) -> str:
    return time_text(microseconds / 1e6)
