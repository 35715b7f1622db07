"""The report of `nezha bench`: JSON, a picture, and the table as nccl-tests prints it: comment lines with
'#', one line a size, a footer.

Bandwidths are in GB/s there, as nccl-tests has them; the JSON's are in Gbit/s.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

from ..cli import console, figures
from ..lab.shaping import BULK, EXACT
from .cores import line as cores_line
from .shaping_choice import of_limit_holds
from .collective_plot import plot
from .collective_run import Report
from .libraries.best import beside
from .rows import Row, average_busbw, total_wrong
from ..cli.sizes import format_size

Extra = Tuple[str, str, Sequence[str]]  # name, unit, one text a row
_Column = Tuple[str, str, Callable[[Row], str]]  # name, unit, text of a row


def _number(value: Optional[float], digits: int = 2) -> str:
    return "-" if value is None else f"{value:.{digits}f}"


def _time(value: Optional[float]) -> str:
    if value is None:
        return "-"
    return f"{value:.1f}" if value < 1e4 else f"{value:.0f}"


def _percent(value: Optional[float]) -> str:
    return "-" if value is None else f"{100 * value:.1f}"


def _of_limit(row: Row) -> str:
    return _percent(row["of_limit"]) + ("" if row["of_limit"] is None or of_limit_holds(row) else "~")


def _cost(value: Optional[float]) -> str:
    # Under 100 KB the cost per GB is the cost of a call in disguise: no digits that mean nothing.
    return "-" if value is None else f"{value:.1f}" if value < 1e3 else f"{value:.0f}"


def _shares(row: Row) -> str:
    """Share by rail; with what carries it and its rate, where not all rails are TCP."""
    mixed = any(rail["transport"] != "tcp" for rail in row["rails"])

    def kind(rail: Row) -> str:
        rate = f" {rail['rate_gbps']:g}G" if rail["rate_gbps"] else ""
        return f"({rail['transport']}{rate})" if mixed else ""

    return " ".join(f"{rail['name']}{kind(rail)}:{100 * rail['share']:.1f}%"
                    for rail in row["rails"]) or "-"


def _columns(rows: Sequence[Row], extras: Sequence[Extra]) -> List[_Column]:
    columns: List[_Column] = [
        ("size", "(B)", lambda row: str(row["size"])),
        ("count", "(elements)", lambda row: str(row["count"])),
        ("type", "", lambda row: row["type"]),
        ("redop", "", lambda row: row["redop"]),
        ("time", "(us)", lambda row: _time(row["time_us"])),
        ("algbw", "(GB/s)", lambda row: _number(row["algbw_gbps"] / 8, 4)),
        ("busbw", "(GB/s)", lambda row: _number(row["busbw_gbps"] / 8, 4)),
        ("#wrong", "", lambda row: str(row["wrong"])),
        ("limit_us", "(us)", lambda row: _time(row["limit_us"])),
        ("of_limit", "(%)", _of_limit),
        ("p50", "(us)", lambda row: _time(row["p50_us"])),
        ("p99", "(us)", lambda row: _time(row["p99_us"])),
        ("cpu", "(s/GB)", lambda row: _cost(row["cpu_s_per_gb"])),
    ]
    for name, unit, texts in extras:
        by_row = {id(row): text for row, text in zip(rows, texts)}
        columns.append((name, unit, lambda row, found=by_row: found[id(row)]))  # type: ignore
    columns.append(("rails", "(share)", _shares))
    return columns


def gain_column(gains: Sequence[Optional[float]]) -> List[Extra]:
    """The column of rows.gains; none where nothing is known."""
    if all(gain is None for gain in gains):
        return []
    return [("gain", "(x)", [_number(gain) for gain in gains])]


def spread_column(spreads: Sequence[Row]) -> List[Extra]:
    """The column of rows.spread: the times of the fastest launch and the slowest one."""
    texts = [f"{_time(entry['min_us'])}..{_time(entry['max_us'])}" for entry in spreads]
    return [("launches", "(us)", texts)]


def cores_columns(rows: Sequence[Row], free: Sequence[Row]) -> List[Extra]:
    """What --cores-per-rail gave and what came of it; `free`: the same without a limit."""
    return [("given", "(cores)", [_number(row["cores_given"], 0) for row in rows]),
            ("used", "(cores)", [_number(row["cores_used"]) for row in rows]),
            ("free_us", "(us)", [_time(row["time_us"]) for row in free]),
            ("free", "(cores)", [_number(row["cores_used"]) for row in free])]


def lab_line(lab: Dict[str, Any]) -> str:
    """What a result must state about its lab; `lab` is surroundings.lab_facts()."""
    mtus = ",".join(str(mtu) for mtu in sorted(set(lab["mtu"])))
    shape = "NOT shaped"
    if lab["shaped"]:
        bursts = ",".join(str(burst) for burst in lab["burst_bytes"])
        shape = f"shaped ({lab['shaping']}), queue {lab['queue_ms']} ms, burst {bursts} B"
    return (f"# lab: {lab['mode']}, {shape}, congestion control {lab['congestion_control']}, "
            f"mtu {mtus}")


def header_lines(facts: Dict[str, Any]) -> List[str]:
    """Comment lines that state how the numbers were made; `facts` is the JSON's config."""
    lines = [f"# nezha bench {facts.get('collective', '')}: {facts.get('ranks', '?')} ranks, "
             f"rails {', '.join(facts.get('rails') or ['as found'])}, "
             f"{'in place' if facts.get('in_place') else 'out of place'}, "
             f"{facts.get('launches', 1)} launch(es)"]
    if facts.get("lab"):
        lines.append(lab_line(facts["lab"]))
        lines += [f"# {kind} wires: {each['sentence']}"
                  for kind, each in facts["lab"].get("capacity", {}).items()]
    if facts.get("cores"):
        lines.append(cores_line(facts["cores"]))
    options = facts.get("options") or {}
    if options:
        lines.append("# config: " + " ".join(f"{key}={value}" for key, value in options.items()))
    lines.append("# gain (where shown): time on the best single rail / on all; "
                 "rails: share of the bytes")
    return lines


def footer_lines(rows: Sequence[Row], wire: Optional[Dict[str, Any]]) -> List[str]:
    """Comment lines with the verdicts."""
    wrong = total_wrong(rows)
    lines = [f"# Out of bounds values : {wrong} {'OK' if wrong == 0 else 'FAILED'}",
             f"# Avg bus bandwidth    : {average_busbw(rows) / 8:.4f} GB/s"]
    lines += _shaping_lines(rows)
    if wire is None or wire["agree"] is None:
        lines.append("# Interface counters   : nothing to compare")
    elif wire["agree"]:
        lines.append("# Interface counters   : agree with the library "
                     f"(at most {100 * wire['overhead']:.1f} % more on the wire)")
    else:
        lines.append("# Interface counters   : DISAGREE")
        lines += [f"#   {sentence}" for sentence in wire["disagreements"][:5]]
    return lines


def _shaping_lines(rows: Sequence[Row]) -> List[str]:
    """How the lab's wires were shaped for which sizes, and by how much that may flatter."""
    lines = []
    for kind in (EXACT, BULK):
        part = [row for row in rows if row.get("shaping") == kind]
        if not part:
            continue
        sizes = format_size(part[0]["size"])
        if len(part) > 1:
            sizes += f" to {format_size(part[-1]['size'])}"
        most = [row for row in part if of_limit_holds(row)]
        words = (f"the token buckets may overstate by {100 * most[0]['flattery']:.1f} % at "
                 f"{format_size(most[0]['size'])}, less above" if most else
                 "the token buckets may overstate by more than 10 %")
        lines.append(f"# Wires                : {kind} for {sizes}; {words}")
    if any(_of_limit(row).endswith("~") for row in rows):
        lines.append("# ~                    : token buckets may overstate this size by more than 10 %")
    return lines


def show(rows: Sequence[Row], title: str = "", extras: Sequence[Extra] = ()) -> None:
    """Prints the table on standard output."""
    if title:
        console.sentences([f"#\n# {title}"])
    columns = _columns(rows, extras)
    console.commented_table([f"{name}\n{unit}" for name, unit, _ in columns],
                            [[text(row) for _, _, text in columns] for row in rows],
                            [row["wrong"] > 0 for row in rows])


def publish(report: Report, json_to: Optional[str], plot_to: Optional[Path]) -> int:
    """Prints or writes `report` as asked. Returns the exit status: 1 where a result was wrong."""
    console.answer(report.document, json_to, lambda _: _print_tables(report))
    config = report.document["config"]
    figures.answer(plot_to, lambda path: plot(
        report.curves(), path, f"{config['collective']}, {config['ranks']} ranks, {config['type']} "
        f"{config['redop']}"))
    return 1 if total_wrong(report.rows) else 0


def _print_peers(peers: Dict[str, Any], best: Dict[str, Any]) -> None:
    for name, entry in peers.items():
        if name not in beside(best):
            show(entry["rows"], f"{name} ({entry['algorithm']}), same lab, same rule")
    for name, entry in best.items():
        title = f"{name} (the best of {len(entry['settings'])} settings), same lab, same rule"
        show(entry["rows"], title, [("setting", "", [row["setting"] for row in entry["rows"]])])


def _print_tables(report: Report) -> None:
    document = report.document
    print("\n".join(header_lines(document["config"])))
    extras = gain_column(report.gains)
    if "spread" in document:
        extras += spread_column(document["spread"])
    if "free" in document:
        extras += cores_columns(report.rows, document["free"]["rows"])
    show(report.rows, extras=extras)
    print("\n".join(footer_lines(report.rows, document["wire_check"])))
    for name, entry in document.get("singles", {}).items():
        show(entry["rows"], f"{name} only")
    _print_peers(document.get("peers", {}), document.get("best", {}))
    for name, why in document.get("peers_left_out", {}).items():
        print("#\n# " + f"{name} is left out: {why}".replace("\n", "\n#   "))
