"""Training that goes on when ranks die, in plain NumPy over Nezha.

    nezha run -n 4 --grace 60 python examples/recovery.py --kill 2:30     # rank 2 kills itself in step 30
    nezha run -n 4 python examples/recovery.py                            # nobody does

Gradient descent on a linear model. Every rank holds the model and the data; the ranks that are left share
the samples among them, so that the result is that of one process whoever dies.

Three things make it right:

1. An operation that fails leaves its output undefined, half reduced perhaps. So the gradient is computed
   again for every attempt, and the model changes only by a result that is whole.
2. Some ranks may have the result of a step that the others saw fail. So each keeps the model of before
   its last step, and all agree, by a minimum, on how many steps are done; who is a step ahead
   goes back. No
   rank is ever two ahead: a sum needs a part of everybody, and who saw a step fail gave none to the next.
3. Who is done must not leave while others may need its part of the last step again. So all meet in a
   barrier: whoever passes it knows that all have every step.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
from typing import Optional, Tuple

import numpy as np

import nezha

SAMPLES, FEATURES = 512, 64
RATE = 0.1
TOLERANCE = 1e-9  # of a weight; the ranks add the same numbers in another order than one process does


def data() -> Tuple[np.ndarray, np.ndarray]:
    """Inputs [SAMPLES, FEATURES] and targets [SAMPLES], the same on every rank."""
    generator = np.random.default_rng(7)
    inputs = generator.standard_normal((SAMPLES, FEATURES))
    noise = 0.01 * generator.standard_normal(SAMPLES)
    return inputs, inputs @ generator.standard_normal(FEATURES) + noise


def gradient(inputs: np.ndarray, targets: np.ndarray, weights: np.ndarray, rank: int,
             ranks: int) -> np.ndarray:
    """This rank's part [FEATURES] of the gradient of the mean squared error over all samples."""
    part = slice(rank, None, ranks)
    return 2 / SAMPLES * inputs[part].T @ (inputs[part] @ weights - targets[part])


def train(comm: nezha.Communicator, steps: int, kill: Optional[Tuple[int, int]]
          ) -> Tuple[nezha.Communicator, np.ndarray]:
    """The communicator of the ranks that came to the end, and the model [FEATURES].

    kill: a rank, and the step in which it ends itself. Raises nezha.PeerLost where the others lost this
    rank and go on without it.
    """
    inputs, targets = data()
    born = comm.rank
    weights = before = np.zeros(FEATURES)
    done = 0
    while True:
        try:
            agreed = int(comm.all_reduce(np.array([done]), "min")[0])
            if agreed < done:
                weights, done = before, agreed
            while done < steps:
                if kill == (born, done):
                    os.kill(os.getpid(), signal.SIGKILL)
                total = comm.all_reduce(gradient(inputs, targets, weights, comm.rank, comm.world_size))
                before, weights = weights, weights - RATE * total
                done += 1
            comm.barrier()
            return comm, weights
        except (nezha.PeerLost, nezha.Aborted) as error:  # Aborted: another rank called shrink()
            lost, comm = comm, comm.shrink()
            lost.close()
            print(f"{done} steps done, now rank {comm.rank} of {comm.world_size}, because {error}",
                  flush=True)


def main() -> int:
    """Trains; returns 1 when the model is not that of one process."""
    arguments = _arguments()
    comm, weights = train(nezha.init(), arguments.steps, arguments.kill)
    inputs, targets = data()
    alone = np.zeros(FEATURES)
    for _ in range(arguments.steps):
        alone -= RATE * gradient(inputs, targets, alone, 0, 1)
    difference = float(np.abs(weights - alone).max())
    verdict = "agrees" if difference <= TOLERANCE else "DISAGREES"
    loss = float(np.mean((inputs @ weights - targets) ** 2))
    print(f"rank {comm.rank} of {comm.world_size}: loss {loss:.6f}, {verdict} with one process",
          flush=True)
    comm.close()
    return int(difference > TOLERANCE)


def _victim(text: str) -> Tuple[int, int]:
    rank, step = text.split(":")
    return int(rank), int(step)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--kill", type=_victim, metavar="RANK:STEP",
                        help="this rank kills itself before this step")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
