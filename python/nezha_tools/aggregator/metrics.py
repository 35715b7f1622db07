"""A node's numbers for Prometheus: a collector that asks the node when it is scraped, and its server.

The server answers a few clients at a time and closes a connection that has not sent its request and
read the answer within five seconds, so that clients can neither make the process grow nor block others.
The node is asked ten times a second at most, however many ask the server: each time it looks at its jobs
with the locks that their data needs, too.
"""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from http.server import ThreadingHTTPServer
from typing import Any, Callable, Dict, Iterator, Tuple

from ..cli.errors import AggregatorError
from .node_stats import Stats, job_name, jobs, refusals, total
from .options import format_endpoint

_PREFIX = "nezha_aggregator_"
_SCRAPERS_MAX = 8
_PATIENCE_SECONDS = 5.0
_INTERVAL_SECONDS = 0.1

# name, what it is: sums over the node's life, also of jobs that are over
TOTALS = {
    "operations": "Operations that the node took part in",
    "bytes_received": "Bytes received from ranks and nodes",
    "bytes_sent": "Bytes sent to ranks and nodes",
}
# name, field of the statistics, what it is: of each job that is served now
PER_JOB = (
    ("job_ranks", "ranks", "Ranks of the job"),
    ("job_ranks_connected", "ranks_up", "Ranks of the job that are connected"),
    ("job_groups", "groups", "Communicators that the node adds up for"),
    ("job_buffer_bytes", "buffer_bytes", "Contributions and results in memory, in bytes"),
    ("job_memory_bytes", "memory_bytes", "The same with what is kept for the next ones, in bytes"),
    ("job_charged_bytes", "charged_bytes", "Memory that is set aside for the job, in bytes"),
)
PER_JOB_TOTALS = (
    ("job_operations", "operations", "Operations of the job"),
    ("job_bytes_received", "bytes_received", "Bytes received for the job"),
    ("job_bytes_sent", "bytes_sent", "Bytes sent for the job"),
)


class Collector:
    """What a scrape asks. stats: the node's statistics now; may be called by any thread."""

    def __init__(self, stats: Callable[[], Stats], labels: Dict[str, str]) -> None:
        self._stats = stats
        self._labels = labels
        self._lock = threading.Lock()
        self._asked_at = float("-inf")
        self._answer: Stats = {}

    def _ask(self) -> Stats:
        """The statistics, no older than this call. Calls that wait for each other share an answer."""
        called_at = time.monotonic()
        with self._lock:
            if self._asked_at < called_at:
                time.sleep(max(0.0, self._asked_at + _INTERVAL_SECONDS - time.monotonic()))
                self._asked_at = time.monotonic()
                self._answer = self._stats()
            return self._answer

    def collect(self) -> Iterator[Any]:
        """Every family of metrics; prometheus_client calls it."""
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, InfoMetricFamily

        stats = self._ask()
        yield InfoMetricFamily(_PREFIX + "node", "The node", value=self._labels)
        yield GaugeMetricFamily(_PREFIX + "jobs", "Jobs served now", value=len(jobs(stats)))
        yield GaugeMetricFamily(_PREFIX + "charged_bytes", "Memory that is set aside for jobs",
                                value=stats.get("bytes_charged", 0))
        yield CounterMetricFamily(_PREFIX + "jobs_ended", "Jobs that are over",
                                  value=stats.get("ended", {}).get("jobs", 0))
        for name, text in TOTALS.items():
            yield CounterMetricFamily(_PREFIX + name, text, value=total(stats, name))
        refused = CounterMetricFamily(_PREFIX + "refused", "Refusals by reason", labels=["reason"])
        for reason, count in refusals(stats).items():
            refused.add_metric([reason], count)
        yield refused
        connections = CounterMetricFamily(_PREFIX + "connections", "Connections to the port by outcome",
                                          labels=["outcome"])
        for outcome, count in stats.get("connections", {}).items():
            connections.add_metric([outcome], count)
        yield connections
        for families, fields in ((GaugeMetricFamily, PER_JOB), (CounterMetricFamily, PER_JOB_TOTALS)):
            for name, field, text in fields:
                family = families(_PREFIX + name, text, labels=["job"])
                for job in jobs(stats):
                    family.add_metric([job_name(job)], job.get(field, 0))
                yield family


class MetricsServer:
    """Serves a collector, and the process's own CPU and memory, from a thread of its own.

    Raises AggregatorError where prometheus_client is missing or the address cannot be listened on.
    """

    def __init__(self, endpoint: Tuple[str, int], collector: Collector) -> None:
        try:
            from prometheus_client import CollectorRegistry, MetricsHandler, ProcessCollector
        except ImportError:
            raise AggregatorError(
                "--metrics needs prometheus_client: pip install prometheus-client") from None
        registry = CollectorRegistry()
        registry.register(collector)
        ProcessCollector(registry=registry)
        try:
            self._server = _Server(endpoint, MetricsHandler.factory(registry))
        except OSError as error:
            raise AggregatorError(f"--metrics {format_endpoint(*endpoint)}: {error.strerror}") from None
        threading.Thread(target=self._server.serve_forever, args=(0.1,), daemon=True,
                         name="metrics").start()

    @property
    def port(self) -> int:
        """Where it listens."""
        return int(self._server.server_address[1])

    def close(self) -> None:
        """Stops listening. Scrapes under way end with the process."""
        self._server.shutdown()
        self._server.server_close()


def _hang_up(connection: socket.socket) -> None:
    with contextlib.suppress(OSError):  # it has ended
        connection.shutdown(socket.SHUT_RDWR)


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 64

    def __init__(self, endpoint: Tuple[str, int], handler: Any) -> None:
        self.address_family = socket.AF_INET6 if ":" in endpoint[0] else socket.AF_INET
        self._free = threading.Semaphore(_SCRAPERS_MAX)
        super().__init__(endpoint, handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        if not self._free.acquire(blocking=False):
            self.shutdown_request(request)
            return
        super().process_request(request, client_address)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        # A timeout of the socket would begin anew with every byte.
        end = threading.Timer(_PATIENCE_SECONDS, _hang_up, [request])
        end.daemon = True
        end.start()
        try:
            super().process_request_thread(request, client_address)
        finally:
            end.cancel()
            self._free.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that closes its connection, or is too slow, is not logged."""
