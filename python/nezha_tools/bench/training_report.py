"""The report of a training bench: what was run, configurations, profile; and the picture."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Dict, List, Optional, Sequence

from ..cli import console
from ..cli import figures
from .collective_report import lab_line

_BAR = "#0072B2"
_OTHER = "#D55E00"
_GREY = "#BBBBBB"


def publish(document: Dict[str, Any], json_to: Optional[str], plot_to: Optional[Path]) -> int:
    """Prints or writes `document` as asked. Returns the exit status: 1 where a result was wrong."""
    console.answer(document, json_to, show)
    figures.answer(plot_to, lambda path: plot(document, path))
    return 1 if any(entry["wrong"] for entry in document["configurations"]) else 0


def show(document: Dict[str, Any]) -> None:
    """Prints the whole report."""
    config, schedule = document["config"], document["schedule"]
    gradients = sum(schedule["buckets"])
    wrong = sum(entry["wrong"] for entry in document["configurations"])
    console.sentences([
        f"# nezha bench train {config['model']}: {config['ranks']} ranks on {config['nodes']} nodes, "
        f"{config['batch']} images a step on each, {schedule['parameters']} parameters, "
        f"{gradients / 1e6:.1f} MB of gradients in {len(schedule['buckets'])} all-reduces",
        *_what_was_run(config, schedule), lab_line(config["lab"])])
    console.commented_table(*_configurations(document["configurations"]))
    console.sentences([
        "# step: median of the slowest rank; comm: at least one all-reduce under way; waiting: "
        "nothing", "# left to compute; speed-up and comm ratio: to the first line; rails: share "
        "of the bytes",
        *_forms(document["configurations"]),
        f"# Wrong elements: {wrong} {'OK' if wrong == 0 else 'FAILED'}",
        "#", "# communication profile of one step: all-reduces by size (and gradients by size, "
        "before bucketing)"])
    console.commented_table(*_profile(document["profile"]))


def _what_was_run(config: Dict[str, Any], schedule: Dict[str, Any]) -> List[str]:
    compute = sum(schedule["gaps_s"]) + schedule["tail_s"]
    if config["mode"] == "ddp":
        return [f"# DDP: the real training on synthetic images; {config['ranks']} ranks of "
                f"{config['threads']} thread(s) share {config['cpus']} cores, so computation is",
                "#   slower than on as many machines, and takes time from communication: see --replay"]
    text = ["# REPLAY, not training: the all-reduces of one recorded step, with sleeps where it "
            "computed. Recorded on one rank", f"#   alone with {schedule['threads']} thread(s): "
            f"{compute:.3f} s of computation a step"]
    if config["compute_scale"] != 1:
        text[1] += f"; slept {config['compute_scale']:g} times that (--compute-scale)"
    return text


def _forms(entries: Sequence[Dict[str, Any]]) -> List[str]:
    """What going by host brings, for each lab in which both forms ran: they follow each other."""
    lines = []
    for one, other in zip(entries, entries[1:]):
        if (one["form"], other["form"]) == ("by host", "flat"):
            ratio = other["communication_s"] / one["communication_s"]
            lines.append(f"# {' + '.join(one['rails'])}: by host ({', '.join(one['algorithms'])}) "
                         f"communication takes 1/{ratio:.2f} of flat ({', '.join(other['algorithms'])}), "
                         f"a step 1/{other['step_s'] / one['step_s']:.2f}; launched in turn")
    return lines


def _configurations(entries: Sequence[Dict[str, Any]]) -> Any:
    headings = ["configuration", "images/s", "speed-up", "step (s)", "comm (s)", "comm (%)",
                "comm ratio", "waiting (s)", "waiting (%)", "rails"]
    cells = []
    for entry in entries:
        ratio = entry["communication_ratio"]
        cells.append([
            entry["name"], f"{entry['images_per_s']:.2f}", f"{entry['speedup']:.2f}",
            f"{entry['step_s']:.3f}", f"{entry['communication_s']:.3f}",
            f"{100 * entry['communication_share']:.0f}", "-" if ratio is None else f"{ratio:.2f}",
            f"{entry['waiting_s']:.3f}", f"{100 * entry['waiting_share']:.0f}",
            " ".join(f"{name}:{100 * share:.1f}%" for name, share in entry["rails_share"].items())])
    return headings, cells


def _profile(found: Sequence[Dict[str, Any]]) -> Any:
    headings = ["size", "all-reduces", "MB", "of bytes (%)", "gradients"]
    return headings, [[line["class"], str(line["all_reduces"]), f"{line['bytes'] / 1e6:.1f}",
                       f"{100 * line['share']:.1f}", str(line["tensors"])] for line in found]


def plot(document: Dict[str, Any], path: Path) -> None:
    """Writes a picture: the profile, and images per second. Raises BenchError."""
    pyplot = figures.drawing()

    config = document["config"]
    figure, (left, right) = pyplot.subplots(1, 2, figsize=(11, 4.6), dpi=150)
    _draw_profile(left, document["profile"])
    size = f"{config['bucket_mb']:g} MB" if config["bucket_mb"] else "DDP's default size"
    left.set_title(f"operations of a step, buckets of {size}", loc="left")
    entries = document["configurations"][::-1]
    bars = right.barh([entry["name"] for entry in entries],
                      [entry["images_per_s"] for entry in entries],
                      color=[_BAR if entry["backend"] == "nezha" else _OTHER for entry in entries])
    right.bar_label(bars, fmt="%.3g", padding=3)
    right.margins(x=0.15)
    right.set_title(f"images per second, {config['ranks']} ranks ({config['mode']})", loc="left")
    figure.suptitle(f"{config['model']}, batch {config['batch']}", x=0.01, ha="left")
    for axes in (left, right):
        for side in ("top", "right"):
            axes.spines[side].set_visible(False)
    figures.write(figure, path)


def _draw_profile(axes: Any, profile: Sequence[Dict[str, Any]]) -> None:
    """All-reduces by size, beside the gradients that they are made of."""
    places = range(len(profile))
    axes.bar([place - 0.2 for place in places], [line["all_reduces"] for line in profile], 0.4,
             color=_BAR, label="all-reduces")
    axes.bar([place + 0.2 for place in places], [line["tensors"] for line in profile], 0.4,
             color=_GREY, label="gradients, before bucketing")
    axes.set_xticks(list(places), [line["class"] for line in profile], rotation=40, ha="right")
    axes.yaxis.get_major_locator().set_params(integer=True)
    axes.set_xlabel("size (bytes)")
    axes.legend(frameon=False)
