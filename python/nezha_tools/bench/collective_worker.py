"""One rank of a bench in a lab of its own: `python -m nezha_tools.bench.collective_worker SPEC.json`.

Rank 0 prints one line a size, `@sample {json}`, as soon as it is known; everything else on its
output is somebody's log. The exit status is 0 when every size has been measured.
"""

from __future__ import annotations

import sys
from pathlib import Path

from .cores import restrict
from ..cli.errors import BenchError
from .measure import measure
from .spec import BenchSpec, Sample


def main() -> None:
    """Joins the world that the environment describes and runs the spec."""
    import nezha

    spec = BenchSpec.load(Path(sys.argv[1]))
    try:
        with nezha.init(config=restrict(spec)) as comm:
            measure(comm, spec, Sample.emit if comm.rank == 0 else None)
    except (nezha.Error, BenchError, ValueError) as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
