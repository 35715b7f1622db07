"""Whether processes of this host can share memory, and what they copy through it: a small job that tries.

`python -m nezha_tools.info.memory_probe RANK RANKS STORE BYTES` is one rank; rank 0 prints a line.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from typing import Any, Dict, List, Optional

from nezha.files import explained

_PATIENCE_S = 60.0
_ROUNDS = 15
# What the surroundings ask of jobs of the user's is not asked of this one.
_OURS = ("NEZHA_", "RANK", "WORLD_SIZE", "LOCAL_", "MASTER_", "OMPI_", "PMI", "SLURM_")


@dataclass
class MemoryProbe:
    """reason: why it does not work, "" where it does. copy_rate: bytes per second that each rank gets out
    of the memory while all do; None where it does not work."""

    reason: str
    copy_rate: Optional[float] = None

    @property
    def works(self) -> bool:
        """Whether the ranks did share memory."""
        return not self.reason


def try_memory(ranks: int = 2, size: int = 4096) -> MemoryProbe:
    """Starts so many ranks that insist on shared memory (shm=on) and gather `size` bytes of each. Never
    raises for what they find, nor where they cannot be started."""
    try:
        return _try_memory(ranks, size)
    except OSError as error:
        return MemoryProbe(f"it could not be tried: {explained(error)}")


def _try_memory(ranks: int, size: int) -> MemoryProbe:
    env = {name: value for name, value in os.environ.items() if not name.startswith(_OURS)}
    with tempfile.TemporaryDirectory(prefix="nezha-memory-") as folder:
        processes: List["subprocess.Popen[str]"] = []
        try:
            for rank in range(ranks):
                processes.append(subprocess.Popen(
                    [sys.executable, "-m", "nezha_tools.info.memory_probe", str(rank), str(ranks),
                     f"file://{folder}/store", str(size)], env=env, text=True, stdin=subprocess.DEVNULL,
                    stdout=subprocess.PIPE, stderr=subprocess.PIPE))
            outputs = [process.communicate(timeout=_PATIENCE_S) for process in processes]
        except subprocess.TimeoutExpired:
            return MemoryProbe(f"{ranks} processes that tried said nothing for {_PATIENCE_S:.0f} s")
        finally:
            for process in processes:
                process.kill()
                process.wait()
    for process, (_, complaint) in zip(processes, outputs):
        if process.returncode != 0:
            words = complaint.strip() or f"a process ended with status {process.returncode}"
            return MemoryProbe(words.splitlines()[-1])
    return _verdict(json.loads(outputs[0][0].splitlines()[-1]))


def _verdict(found: Dict[str, Any]) -> MemoryProbe:
    if not found["bytes"]:
        return MemoryProbe("the ranks met, and no byte went through memory")
    return MemoryProbe("", found["copy_rate"])


def _rank(rank: int, ranks: int, store: str, size: int) -> Dict[str, Any]:
    import numpy as np

    import nezha

    mine, everybody = np.full(size, rank, np.uint8), np.empty(ranks * size, np.uint8)
    seconds: List[float] = []
    with nezha.init(rank, ranks, store, config={"shm": "on", "rails": "lo"}) as comm:
        for _ in range(_ROUNDS):
            comm.barrier()
            begin = time.perf_counter()
            comm.all_gather(mine, out=everybody)
            seconds.append(time.perf_counter() - begin)
        slowest = comm.all_reduce(np.array(seconds), op="max")
        stats = comm.stats()
    if any(everybody[::size] != np.arange(ranks) % 256):
        sys.exit("what was gathered through memory is wrong")
    return {"bytes": stats["memory_bytes_received"],
            "copy_rate": (ranks - 1) * size / float(np.median(slowest))}


def main() -> None:
    """One rank."""
    import nezha

    rank, ranks, store, size = sys.argv[1:]
    try:
        found = _rank(int(rank), int(ranks), store, int(size))
    except nezha.Error as error:
        sys.exit(str(error).replace("\n", " "))
    if rank == "0":
        print(json.dumps(found))


if __name__ == "__main__":
    main()
