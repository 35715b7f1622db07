"""The examples that people copy, started as they start them: losses fall, whatever the backend."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, Dict, List, Mapping, Optional

import pytest

import nezha.lab
from nezha.lab import Lab

EXAMPLES = Path(__file__).parents[2] / "examples"
PATIENCE_S = 300
MB = 1 << 20
# torch 2.15's Gloo at times does, after the interpreter has ended: its result is complete by then.
ABORTS_AT_EXIT = "terminate called without an active exception"
NEZHA = [sys.executable, "-c",
         "import sys; sys.argv[0] = 'nezha'; from nezha_tools.main import main; main()"]
TORCHRUN = [sys.executable, "-m", "torch.distributed.run"]


def losses(environment: Mapping[str, str], result: Path, *command: Any,
           forgiven: Optional[str] = None) -> List[float]:
    """Of an example that writes its result to `result`: they must fall, and its exit status be 0, unless
    it says `forgiven`."""
    done = subprocess.run([str(part) for part in [*command, "--json", result]], text=True,
                          capture_output=True, timeout=PATIENCE_S, env={**os.environ, **environment})
    written = done.stdout[-4000:] + done.stderr[-4000:]
    ended = done.returncode == 0 or (forgiven is not None and forgiven in done.stderr)
    assert ended and result.exists(), written
    found = json.loads(result.read_text())["losses"]
    assert found[-1] < 0.97 * found[0], found
    return found


def agree(first: List[float], second: List[float]) -> None:
    """Sums in another order differ in rounding, which every step carries on."""
    assert first == pytest.approx(second, rel=1e-4)


@pytest.mark.long  # test_ddp_uses_both_rails runs the first example, test_training trains with FSDP
@pytest.mark.parametrize("example, options", [
    ("ddp_digits.py", ["--epochs", 2]),
    ("fsdp2_transformer.py", ["--steps", 6, "--batch", 4])])
def test_the_backend_changes_no_loss(example, options, environment, tmp_path):
    pytest.importorskip("sklearn")
    found = [losses(environment, tmp_path / backend, *NEZHA, "run", "-n", 2, sys.executable,
                    EXAMPLES / example, "--backend", backend, *options, forgiven=forgiven)
             for backend, forgiven in (("nezha", None), ("gloo", ABORTS_AT_EXIT))]
    agree(*found)


GRADIENTS = """
import sys
import torch
import nezha, nezha.torch
torch.distributed.init_process_group("gloo")
rank = torch.distributed.get_rank()
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 2))
with nezha.init(job="gradients") as gradients:
    model.register_comm_hook(gradients, nezha.torch.ddp_hook)
    model(torch.full((3, 4), rank + 1.0)).sum().backward()
    used = gradients.stats()["operations_begun"] > 0
    # In one write: torchrun gives its ranks one output.
    sys.stdout.write(f"gradient {model.module.weight.grad[0, 0].item()} {used}\\n")
torch.distributed.destroy_process_group()
"""


@pytest.mark.parametrize("launcher", ["nezha", "torchrun"])
def test_a_communicator_beside_a_process_group(environment, tmp_path, launcher):
    """As docs/torch.md has it: the process group's store has the port at which the ranks would meet."""
    program = tmp_path / "program.py"
    program.write_text(GRADIENTS)
    start = ([*NEZHA, "run", "-n", "2", sys.executable] if launcher == "nezha"
             else [*TORCHRUN, "--nproc-per-node", "2"])
    done = subprocess.run([*start, str(program)], text=True, capture_output=True, timeout=PATIENCE_S,
                          env={**os.environ, **environment})
    assert done.stdout.count("gradient 4.5 True") == 2, done.stdout + done.stderr


@pytest.mark.long  # test_torch_stores has torchrun, and below is this example
def test_ddp_under_torchrun(environment, tmp_path):
    pytest.importorskip("sklearn")
    losses(environment, tmp_path / "result", *TORCHRUN, "--standalone", "--nproc-per-node", 2,
           EXAMPLES / "ddp_digits.py", "--epochs", 2)


@pytest.mark.long
def test_diloco(environment, tmp_path):
    pytest.importorskip("sklearn")
    command = [*NEZHA, "run", "-n", 2, sys.executable, EXAMPLES / "diloco_torchft.py", "--syncs", 3,
               "--sync-every", 10]
    if importlib.util.find_spec("torchft") is None:
        done = subprocess.run([str(part) for part in command], text=True, capture_output=True,
                              timeout=PATIENCE_S, env={**os.environ, **environment})
        assert done.returncode == 1 and "pip install torchft" in done.stderr
        assert "Traceback" not in done.stderr
        pytest.skip("torchft is not installed; the example says so")
    losses(environment, tmp_path / "result", *command)
    found = json.loads((tmp_path / "result").read_text())
    assert found["replicas"] == found["participants"] == 2 and len(found["losses"]) == 3


@pytest.fixture
def namespaces() -> None:
    """For tests that look at the interfaces of nodes."""
    can = nezha.lab.capabilities()
    if not can.namespaces:
        pytest.skip(f"no namespaces: {can.reason}")


def sent(lab: Lab) -> List[Dict[str, int]]:
    """What each node's devices have sent: the kernel's counters, not the library's."""
    return [{port["device"]: port["tx_bytes"] for port in node["ports"]}
            for node in lab.status()["nodes"]]


@pytest.mark.usefixtures("namespaces")
def test_ddp_uses_both_rails(environment, tmp_path):
    pytest.importorskip("sklearn")
    with Lab(2, ["1gbit", "1gbit"]) as lab:
        losses(environment, tmp_path / "result", *NEZHA, "run", "--lab", lab.name, sys.executable,
               EXAMPLES / "ddp_digits.py", "--epochs", 2)
        carried = sent(lab)
    # 28 steps of 4.5 MB; with two ranks each sends every byte once.
    for node in carried:
        assert sum(node.values()) > 120 * MB
        assert min(node.values()) > 0.2 * sum(node.values()), carried
