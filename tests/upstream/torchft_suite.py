"""torchft's tests of process groups on Nezha: ranks are threads of one process, groups are aborted."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, List

from parameterized import parameterized
from torchft import process_group_test as upstream

from nezha.torch.torchft import ProcessGroupNezha

COLLECTIVES: List[str] = upstream._ALL_COLLECTIVES


class NezhaMultiPgTest(upstream.MultiPgBaseTest):
    """Every collective, also those that torchft skips on Gloo, and each with a rank that leaves."""

    WORLD_SIZE = 3

    @classmethod
    def _create_pg(cls, backend: str) -> Any:
        return ProcessGroupNezha(timeout=timedelta(seconds=10))

    @parameterized.expand(COLLECTIVES)
    def test_collective(self, collective: str) -> None:
        self._run_parallel(collective)

    @parameterized.expand(COLLECTIVES)
    def test_collective_with_resiliency(self, collective: str) -> None:
        self._run_with_resiliency(collective)
