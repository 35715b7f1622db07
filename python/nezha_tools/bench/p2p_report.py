"""The report of `nezha bench p2p`: a matrix of each kind for each rail, what is slow, and the picture."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Dict, List, Optional, Tuple

from ..cli import console, figures
from ..cli.sizes import format_size
from .collective_report import lab_line

KINDS = (("one_way_gbps", "one way (Gbit/s)", "of_advertised"),
         ("both_ways_gbps", "both ways together (Gbit/s)", "of_advertised_both_ways"),
         ("latency_us", "latency (us)", ""))
_NUMBERED = 16  # ranks up to which the picture has the numbers
_SAID = 20  # sentences about a rail; the JSON has all
Table = Tuple[str, List[str], List[List[str]]]  # title, headings, cells


def publish(document: Dict[str, Any], json_to: Optional[str], plot_to: Optional[Path]) -> int:
    """Prints and writes as asked. Returns the exit status: 1 where a byte was wrong."""
    console.answer(document, json_to, _show)
    figures.answer(plot_to, lambda path: plot(document, path))
    return 1 if document["wrong"] else 0


def _show(document: Dict[str, Any]) -> None:
    config, wrong = document["config"], document["wrong"]
    console.sentences([f"# nezha bench p2p: {config['ranks']} ranks, one pair at a time, messages of "
                       f"{format_size(config['size'])}, rails {', '.join(config['rails'])}"])
    if config["lab"]:
        console.sentences([lab_line(config["lab"])])
    for rail in document["rails"]:
        for title, headings, cells in tables(rail):
            console.table(headings, cells, title)
            print()
        left = len(rail["sentences"]) - _SAID
        console.sentences(rail["sentences"][:_SAID] + [f"{left} more are in --json."] * (left > 0))
    console.sentences([
        "Lines send, columns receive. The diagonal is a copy in the host's own memory; % is the part of "
        "the advertised rate (a lab's: of the shaped one); ! marks what is twice slower than usual.",
        f"Wrong bytes: {wrong} {'FAILED' if wrong else 'OK'}"])


def _slow(rail: Dict[str, Any], kind: str) -> List[Tuple[int, int]]:
    return [(cell["from"], cell["to"]) for cell in rail["slow"] if cell["what"] == kind]


def _names(rail: Dict[str, Any]) -> List[str]:
    return [f"{port['rank']} {port['host']} {port['device']}" for port in rail["ports"]]


def tables(rail: Dict[str, Any]) -> List[Table]:
    """The three matrices of one rail."""
    names = _names(rail)
    found = []
    for kind, title, parts in KINDS:
        slow = _slow(rail, kind)
        cells = [[names[a]] + [_cell(value, rail[parts][a][b] if parts else None, (a, b) in slow)
                               for b, value in enumerate(row)] for a, row in enumerate(rail[kind])]
        found.append((f"rail {rail['rail']}, {title}", ["from \\ to", *names], cells))
    return found


def _cell(value: Optional[float], part: Optional[float], is_slow: bool) -> str:
    if value is None:
        return "-"
    text = f"{value:.1f}" if value >= 10 else f"{value:.3f}"
    return text + ("" if part is None else f" {100 * part:.0f}%") + (" !" if is_slow else "")


def plot(document: Dict[str, Any], path: Path) -> None:
    """Writes a picture: heat maps, a line for each rail, slow cells in red frames. Raises BenchError."""
    pyplot = figures.drawing()
    ranks, rails = document["config"]["ranks"], document["rails"]
    side = 2.2 + 0.55 * min(ranks, _NUMBERED)
    size = (len(KINDS) * (side + 0.9), len(rails) * side)
    figure, axes = pyplot.subplots(len(rails), len(KINDS), dpi=150, squeeze=False, figsize=size,
                                   layout="constrained")
    for line, rail in zip(axes, rails):
        for panel, (kind, title, _) in zip(line, KINDS):
            _draw(panel, rail, kind)
            panel.set_title(f"rail {rail['rail']} ({rail['ports'][0]['device']}): {title}", fontsize=9,
                            loc="left")
    figures.write(figure, path, tight=False)


def _draw(panel: Any, rail: Dict[str, Any], kind: str) -> None:
    matrix = rail[kind]
    ranks = range(len(matrix))
    shown = [[float("nan") if a == b else matrix[a][b] for b in ranks] for a in ranks]
    top = max(shown[a][b] for a in ranks for b in ranks if a != b)
    image = panel.imshow(shown, cmap="Blues", vmin=0, vmax=top)
    panel.set_facecolor("#EEEEEE")  # the diagonal
    for a in ranks:
        for b in ranks:
            if len(matrix) <= _NUMBERED and matrix[a][b] is not None:
                panel.text(b, a, _cell(matrix[a][b], None, False), ha="center", va="center", fontsize=7,
                           color="white" if a != b and matrix[a][b] > 0.6 * top else "black")
    for a, b in _slow(rail, kind):
        panel.plot([b - .45, b + .45, b + .45, b - .45, b - .45],
                   [a - .45, a - .45, a + .45, a + .45, a - .45], color="red", linewidth=1.5)
    panel.set_xlabel("receiver", fontsize=8)
    panel.set_ylabel("sender", fontsize=8)
    panel.set_xticks(ranks)
    panel.set_yticks(ranks)
    panel.tick_params(length=0, labelsize=7)
    panel.figure.colorbar(image, ax=panel, shrink=0.8)
