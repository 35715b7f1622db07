"""What people see of a node: the table at its end, and a look at its metrics from elsewhere."""

from __future__ import annotations

import http.client
import urllib.error
import urllib.request
from typing import Dict, Tuple

from ..cli.console import fields, table
from ..cli.errors import AggregatorError
from .node_stats import Stats, jobs, refusals, total

_PATIENCE_SECONDS = 5.0
_ANSWER_MAX = 4 << 20


def closing(stats: Stats, seconds: float, cpu_seconds: float) -> None:
    """The table that the node leaves behind."""
    refused = {reason: count for reason, count in refusals(stats).items() if count}
    received, sent = total(stats, "bytes_received"), total(stats, "bytes_sent")
    fields("nezha aggregator: stopped", {
        "served for": _duration(seconds),
        "jobs": str(len(jobs(stats)) + int(stats.get("ended", {}).get("jobs", 0))),
        "operations": str(total(stats, "operations")),
        "received, sent": f"{_bytes(received)}, {_bytes(sent)}",
        "refused": ", ".join(f"{count} ({reason})" for reason, count in refused.items()) or "nothing",
        "processor time": f"{cpu_seconds:.2f} s" + (
            f", {cpu_seconds / (received / 1e9):.2f} s per GB received" if received >= 1e8 else "")})


def status(url: str) -> None:
    """Prints what the metrics at `url` say. Raises AggregatorError."""
    single, by_job = read_metrics(fetch(url))
    title = f"aggregation node {single.pop('address', url)}"
    fields(title, {name.replace("_", " "): value for name, value in single.items()})
    if by_job:
        _show_jobs(by_job)


def fetch(url: str) -> str:
    """The text of a node's metrics. Raises AggregatorError."""
    try:
        with urllib.request.urlopen(url, timeout=_PATIENCE_SECONDS) as answer:
            return str(answer.read(_ANSWER_MAX).decode("utf-8", "replace"))
    except (urllib.error.URLError, OSError, ValueError, http.client.HTTPException) as error:
        reason = getattr(error, "reason", error)
        raise AggregatorError(f"{url}: {reason}; it is where the node's --metrics listen") from None


def read_metrics(text: str) -> Tuple[Dict[str, str], Dict[str, Dict[str, float]]]:
    """(name -> value of the node, job -> name -> value). Raises AggregatorError where it is no node's."""
    try:
        from prometheus_client.parser import text_string_to_metric_families
    except ImportError:
        raise AggregatorError("status needs prometheus_client: pip install prometheus-client") from None
    single: Dict[str, str] = {}
    by_job: Dict[str, Dict[str, float]] = {}
    try:
        samples = [sample for family in text_string_to_metric_families(text) for sample in family.samples]
    except ValueError as error:
        raise AggregatorError(f"these are no metrics: {error}") from None
    for sample in samples:
        name = sample.name.partition("nezha_aggregator_")[2]
        if sample.name == "process_cpu_seconds_total":
            single["processor seconds"] = f"{sample.value:.2f}"
        if not name:
            continue
        if "job" in sample.labels:
            by_job.setdefault(sample.labels["job"], {})[name] = sample.value
        elif name == "node_info":
            single.update(sample.labels)
        else:
            label = next(iter(sample.labels.values()), None)
            short = name[:-len("_total")] if name.endswith("_total") else name
            single[f"{short} {label}" if label else short] = (
                _bytes(sample.value) if short.startswith("bytes") else f"{sample.value:.0f}")
    if not single:
        raise AggregatorError("these metrics are not those of an aggregation node")
    return single, by_job


def _show_jobs(by_job: Dict[str, Dict[str, float]]) -> None:
    columns = ["ranks", "ranks_connected", "groups", "operations_total", "bytes_received_total",
               "bytes_sent_total"]
    cells = []
    for job, values in sorted(by_job.items()):
        numbers = [(column, values.get(f"job_{column}", 0.0)) for column in columns]
        cells.append([job, *(_bytes(value) if column.startswith("bytes") else f"{value:.0f}"
                             for column, value in numbers)])
    table(["job", *(column.replace("_total", "").replace("_", " ") for column in columns)], cells, "jobs")


def _bytes(count: float) -> str:
    for unit, size in (("TB", 1e12), ("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= size:
            return f"{count / size:.2f} {unit}"
    return f"{count:.0f} B"


def _duration(seconds: float) -> str:
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {rest} s"
