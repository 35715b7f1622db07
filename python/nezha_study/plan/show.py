"""The answers of `nezha plan` as tables and sentences for people; all but those of `job`."""

from __future__ import annotations

from typing import Any, Dict, List, Optional

from nezha_tools.cli.sizes import format_size
from nezha_tools.cli.units import rate_text, time_text
from nezha_tools.cli.console import section, sentences

_HOSTS_SHOWN = 32
Document = Dict[str, Any]


def _number(value: Optional[float], digits: int = 4) -> str:
    return "-" if value is None else f"{value:.{digits}g}"


def links(document: Document) -> None:
    """Tables of links, and what the source says otherwise."""
    if "intra_node" in document:
        section("inside a node, of one accelerator, one direction", [{
            "accelerator": row["accelerator"],
            "link": row["link"],
            "links x lanes x GB/s": row["lanes"],
            "GB/s": _number(row["gb_per_s"]),
            "Gbit/s": _number(row["gbit_per_s"], 5),
            "both ways GB/s": _number(row["duplex_gb_per_s"]),
            "80 % GB/s": _number(row["practical_gb_per_s"]),
            "a pair GB/s": _number(row["pair_gb_per_s"]),
            "bf16 TFLOPS": _number(row["bf16_tflops"]),
        } for row in document["intra_node"]])
    if "pcie_x16" in document:
        section("PCI Express, 16 lanes, one direction", [{
            "generation": row["generation"],
            "lanes x GB/s": row["lanes"],
            "GB/s": _number(row["gb_per_s"]),
            "Gbit/s": _number(row["gbit_per_s"]),
            "both ways GB/s": _number(row["duplex_gb_per_s"]),
            "80 % GB/s": _number(row["practical_gb_per_s"]),
        } for row in document["pcie_x16"]])
    if document.get("inter_node"):
        section("between nodes, all NICs of a node, one direction", [{
            "fabric": row["fabric"],
            "NICs x Gbit/s": row["nics"],
            "Gbit/s": _number(row["gbit_per_s"], 5),
            "GB/s": _number(row["gb_per_s"]),
            "both ways GB/s": _number(row["duplex_gb_per_s"]),
            "80 % GB/s": _number(row["practical_gb_per_s"]),
            "remark": row["remark"],
        } for row in document["inter_node"]])
    if document.get("infiniband"):
        section("InfiniBand, a port of so many lanes, one direction", [{
            "generation": row["generation"],
            **{f"x{width} Gbit/s": _number(row[f"x{width}_gbit_per_s"], 5) for width in (1, 4, 8, 12)},
            "x4 GB/s": _number(row["x4_gb_per_s"]), "latency us": _number(row["latency_us"]),
        } for row in document["infiniband"]])
    sentences([
        f"{row['accelerator']}: {row['remark']}." for row in document.get("intra_node", [])
        if row["remark"]
    ])
    sentences([f"Source: {source}" for source in document["sources"]])


def assignment(document: Document) -> None:
    """Who sends where, and the proof."""
    hosts, rails, naive = document["hosts"], document["rails"], document["naive_rails"]
    sentences([
        f"{hosts} hosts need {rails} rails when every port only sends or only receives: {rails} "
        f"connect up to {document['most_hosts']} hosts, {rails - 1} only "
        f"{document['one_rail_less_connects']} (Sperner: n <= C(r, floor(r/2))).",
        f"The plain construction, two rails for each bit of a host's number, needs {naive}.",
        f"Checked: {document['pairs'] - document['cut_off']} of {document['pairs']} ordered pairs "
        "of hosts have a rail on which the first sends and the second receives; on average they "
        f"have {document['mean_pair_rails']:.2f}.",
        f"A host sends on {rails // 2} of its {rails} ports and receives on the others, so one "
        f"direction has {100 * (rails // 2) / rails:.0f} % of the ports. Hosts that send, by rail: "
        + ", ".join(str(count) for count in document["senders"]) + ".",
    ])
    rows: List[Document] = document["assignment"]
    section("S: sends on this rail, R: receives", [{
        "host": row["host"], f"rails 0 to {rails - 1}": " ".join(row["directions"]),
        "sends on": row["sends"], f"plain, rails 0 to {naive - 1}": " ".join(row["naive_directions"]),
    } for row in rows[:_HOSTS_SHOWN]])
    if hosts > _HOSTS_SHOWN:
        sentences([f"The first {_HOSTS_SHOWN} of {hosts} hosts; --json has all."])


def most_hosts(document: Document) -> None:
    """The way back: from rails to hosts."""
    sentences([f"{document['rails']} rails connect up to {document['most_hosts']} hosts when every "
               "port only sends or only receives (Sperner); by the plain construction "
               f"{document['naive_hosts']}."])


def cabling(document: Document) -> None:
    """What a given cabling can do."""
    missing = document["cut_off"]
    sentences([
        f"{document['hosts']} hosts, {document['rails']} rails: {document['pairs'] - missing} of "
        f"{document['pairs']} ordered pairs have a direct rail, on average "
        f"{document['mean_pair_rails']:.2f}.",
        *(f"No rail from {pair['from']} to {pair['to']}." for pair in document["examples"]),
        *([f"... and {missing - len(document['examples'])} more pairs without."]
          if missing > len(document["examples"]) else []),
        f"{document['fewest_rails']} rails would be enough for {document['hosts']} hosts" +
        (f"; here {document['ports_that_do_both']} port(s) send and receive."
         if document["ports_that_do_both"] else ", with ports that only send or only receive."),
    ])
    section("hosts by rail", document["loads"])


def algorithms(document: Document) -> None:
    """Costs by size, crossovers, choices."""
    first = document["rows"][0]["costs"]
    section(f"predicted time of {document['collective']} over {document['nodes']} nodes", [{
        "size": format_size(row["size"]),
        **{cost["algorithm"]: time_text(cost["time_us"] / 1e6) for cost in row["costs"]},
        "library runs": row["chosen"],
        "cheapest": row["cheapest"] if row["chosen"] != row["cheapest"] else "the same",
        "bytes by rail": " ".join(f"{100 * share:.0f}%" for share in row["shares"]),
    } for row in document["rows"]])
    longest = document["rows"][-1]
    section(f"what {format_size(longest['size'])} are made of", [{
        "algorithm": cost["algorithm"], "messages": _number(cost["messages"]),
        "latency": time_text(cost["latency_us"] / 1e6), "sent x size": _number(cost["bytes_factor"]),
        "transfer": time_text(cost["transfer_us"] / 1e6), "adding": time_text(cost["reduce_us"] / 1e6),
        "not chosen by auto, because": cost["left_out"],
    } for cost in longest["costs"]])
    names = {
        "algorithm": "the library runs", "cheapest": "the cheapest is", "rails": "the balancer uses"
    }
    sentences(f"From {each['size']} B on {names[each['what']]} {each['after']}, below {each['before']}."
              for each in document["crossings"])
    worst = max(document["rows"], key=lambda row: row["chosen_us"] / row["cheapest_us"])
    if worst["chosen"] != worst["cheapest"]:
        sentences([f"At {format_size(worst['size'])} the library's choice is "
                   f"{100 * (worst['chosen_us'] / worst['cheapest_us'] - 1):.0f} % slower than "
                   f"{worst['cheapest']}."])
    sentences([f"Balancer at {format_size(longest['size'])}: {longest['balancer']}."])
    sentences(f"Assumed: {text}." for text in document["assumptions"] if first)


def checked_table(document: Document) -> None:
    """A measured table with a verdict for each row."""
    limit = document["hardware"]
    section(
        f"{document['program']}: {document['collective']}, {document['ranks']} ranks on "
        f"{document['nodes']} node(s), against {limit['gb_per_s']:.4g} GB/s ({limit['what']}, one "
        "direction)", [{
            "size": row["size"],
            "time": time_text(row["time_us"] / 1e6),
            "algbw GB/s": _number(row["algbw_gb_per_s"]),
            "busbw GB/s": _number(row["busbw_gb_per_s"]),
            "%": f"{row['percent']:.1f}",
            "verdict": ("! " if row["bad"] else "") + row["verdict"],
            "in pieces x": _number(row["in_pieces"], 3),
        } for row in document["rows"]])
    sentences([f"{document['grade']}: at best {rate_text(1e9 * document['best_busbw_gb_per_s'])} of bus "
               f"bandwidth, {document['best_percent']:.0f} % of what the wires allow."])
    bad = [str(row["size"]) for row in document["rows"] if row["bad"]]
    if bad:
        sentences([f"Look at {', '.join(bad)} B (marked !): where a row is slower than a smaller "
                   "size the library changes algorithm or protocol, or something else disturbed "
                   "the run; run again."])
    sentences(
        [*document["causes"], *(line[0].upper() + line[1:] + "." for line in document["summary"])])
    if "asked" in document:
        asked = document["asked"]
        sentences([f"{asked['size']} B take {time_text(asked['time_us'] / 1e6)} ({asked['how']})."])


def checked_number(document: Document) -> None:
    """One bus bandwidth with its verdict."""
    limit = document["hardware"]
    wire = (f", {document['wire_gb_per_s']:.4g} GB/s on the wire," if document["in_network"] else "")
    sentences([
        f"{document['grade']}: {document['busbw_gb_per_s']:.4g} GB/s{wire} is "
        f"{document['percent']:.1f} % of {limit['gb_per_s']:.4g} GB/s ({limit['gbit_per_s']:.5g} "
        f"Gbit/s), one direction: {limit['what']}.",
        f"80 to 90 % of an advertised rate are reached at best; {document['of_both_directions']}.",
        *document["causes"]])


def offload(document: Dict[str, Any]) -> None:
    """How many messages, why none, and from which sizes on that pays."""
    sentences([
        f"{document['processes']} processes that copy {document['copy_gb_per_s']:.4g} GB/s each "
        f"({document['copy_known_as']}), {document['adapters']} adapter(s)" +
        (f" of {rate_text(1e9 * document['adapter_gb_per_s'])}." if document["adapters"] else ".")])
    if document["why_none"]:
        sentences([f"d = 0: {document['why_none']}.",
                   "Of a host with adapters: --adapters N --adapter RATE."])
        return
    sentences([
        f"Of the {document['messages']} messages that a process gets, d = "
        f"{document['over_adapters']:.2f} over the adapters make both end together: "
        f"{time_text(document['seconds'])} instead of {time_text(document['copied_seconds'])}.",
        f"In whole messages: {document['whole_messages']}, {time_text(document['whole_seconds'])}."])
    section("by the bytes of a process", [{
        "size": format_size(row["size"]), "all copied": time_text(row["copied_seconds"]),
        "over adapters": row["whole_messages"], "then": time_text(row["whole_seconds"]),
        "gain x": f"{row['gain']:.2f}"} for row in document["sizes"]])
    pays = document["pays_from"]
    sentences([f"It pays from {pays:.0f} bytes on." if pays is not None else
               "It pays at no size: one message takes the adapters longer than copying all."])
    sentences(f"Assumed: {text}." for text in document["assumptions"])
