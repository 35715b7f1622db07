"""What tls=on and integrity=on cost: all_reduces of the ranks of one host, and rank 0's processor time.

    for option in INTEGRITY=off INTEGRITY=on TLS=on; do
      nezha run -n 2 -x NEZHA_RAILS=lo -x NEZHA_$option python bench/protection.py
    done
"""

from __future__ import annotations

import statistics
import time

import numpy as np

import nezha

SIZES = {1 << 20: 600, 64 << 20: 20}  # bytes -> operations


def main() -> None:
    """Prints a line for each size."""
    with nezha.init() as comm:
        for size, count in SIZES.items():
            data = np.full(size // 4, comm.rank, np.float32)
            for _ in range(3):
                comm.all_reduce(data, "max")
            used, times = time.process_time(), []
            for _ in range(count):
                begin = time.perf_counter()
                comm.all_reduce(data, "max")
                times.append(time.perf_counter() - begin)
            used = time.process_time() - used
            if comm.rank == 0:
                print(f"{size >> 20} MiB: {statistics.median(times) * 1e3:.2f} ms, "
                      f"{used / (count * size) * 1e9:.3f} processor seconds per GB", flush=True)


if __name__ == "__main__":
    main()
