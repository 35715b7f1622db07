"""Open MPI, MPICH and Intel MPI from their PyPI wheels: a C program under the peer's own mpirun, in a
lab.

mpirun runs in node 0; it reaches the other nodes through a script that stands in for ssh and
enters the node's network namespace, each under a host name of its own. Ranks of one node use the
peer's own shared memory.
"""

from __future__ import annotations

import os
import shlex
import shutil
import stat
import subprocess
from pathlib import Path
from typing import Dict, List, Optional

from ...cli.errors import BenchError
from ..lab_runner import BenchLab, Progress, patience_for
from ..spec import BenchSpec, Sample
from .settings import Setting

_SOURCE = Path(__file__).with_name("mpi_driver.c")
_DTYPES = ("float32", "float64", "int32")


def find(name: str, prefix: Path, setting: Setting) -> "Mpi":
    """The peer in the environment `prefix`. Raises BenchError with what to install."""
    if not (prefix / "bin" / "mpirun").exists():
        raise BenchError(f"nothing in {prefix}; bench/install_peers.sh {name} installs it")
    if shutil.which("gcc") is None and shutil.which("cc") is None:
        raise BenchError("its driver needs a C compiler: apt-get install gcc")
    return _KINDS[name](prefix, setting)


class Mpi:
    """What both have in common: build the driver, start it in the lab."""

    def __init__(self, prefix: Path, setting: Setting) -> None:
        self._prefix = prefix
        self._setting = setting

    def run(self, lab: BenchLab, spec: BenchSpec,
            progress: Optional[Progress] = None) -> List[Sample]:
        """One launch. Raises BenchError."""
        if spec.collective not in ("all_reduce", "all_gather") or spec.op != "sum" or (
                spec.dtype not in _DTYPES):
            raise BenchError(f"MPI is compared for all_reduce sum and all_gather of {', '.join(_DTYPES)} "
                             "only")
        if lab.lab.mode == "loopback":
            raise BenchError("MPI is compared in a lab with namespaces only")
        launcher = self._launcher(lab, _agent(lab), spec.collective)
        program = [str(self._build(lab.scratch)), *_arguments(spec)]
        # A host name of its own, or mpirun takes the other nodes for this one.
        script = f"hostname lab-node-0 && exec {shlex.join(launcher + program)}"
        samples = lab.launch(["unshare", "--uts", "sh", "-c", script], [{}], progress, patience_for(spec))
        for sample in samples:
            for rail in sample.rails:
                rail.rate = spec.rates.get(rail.device)
        return samples

    def _launcher(self, lab: BenchLab, agent: Path, collective: str) -> List[str]:
        raise NotImplementedError

    def _build(self, scratch: Path) -> Path:
        program = scratch / f"mpi-driver-{type(self).__name__.lower()}"
        command = [str(self._prefix / "bin" / "mpicc"), "-std=c11", "-D_GNU_SOURCE", "-O2",
                   "-o", str(program), str(_SOURCE)]
        built = subprocess.run(command, capture_output=True, text=True,
                               env={**os.environ, "I_MPI_ROOT": str(self._prefix)})  # for Intel's
        if built.returncode != 0:
            raise BenchError(f"{shlex.join(command)} failed:\n{built.stderr[-1500:]}")
        return program


class OpenMpi(Mpi):
    """TCP on every rail, yielding when idle: without it, ranks that share a core starve."""

    # `han` would choose for nodes of several ranks.
    _FORCED = {"coll_tuned_use_dynamic_rules": "1", "coll_han_priority": "0"}

    def _launcher(self, lab: BenchLab, agent: Path, collective: str) -> List[str]:
        ranks = lab.lab.state.ranks_per_node
        hosts = ",".join(f"{host}:{ranks}" for host in _hosts(lab))
        devices = ",".join(device for device, _, _ in lab.devices())
        options, algorithm = dict(self._setting.options), self._setting.algorithm(collective)
        if algorithm:
            options.update(self._FORCED)
            options[f"coll_tuned_{collective.replace('_', '')}_algorithm"] = algorithm
        if self._setting.rates:
            options.update(_bandwidths(lab))
        return [str(self._prefix / "bin" / "mpirun"), "--allow-run-as-root",
                "--prtemca", "plm_ssh_agent", str(agent), "--prtemca", "prte_if_include", "ctl",
                "--host", hosts, "-np", str(lab.lab.ranks), "--map-by", f"ppr:{ranks}:node",
                "--bind-to", "none", "--mca", "pml", "ob1",
                "--mca", "btl", "tcp,self" if ranks == 1 else "tcp,self,sm",
                "--mca", "btl_tcp_if_include", devices, "--mca", "mpi_yield_when_idle", "1",
                *[word for name, value in options.items() for word in ("--mca", name, value)]]


class Mpich(Mpi):
    """UCX over TCP, as many lanes as there are rails."""

    def _launcher(self, lab: BenchLab, agent: Path, collective: str) -> List[str]:
        rails, ranks = str(len(lab.devices())), lab.lab.state.ranks_per_node
        devices = ",".join(device for device, _, _ in lab.devices())
        settings = {"MPIR_CVAR_CH4_NETMOD": "ucx", "UCX_TLS": "tcp,self",
                    "UCX_NET_DEVICES": devices, "UCX_MAX_RNDV_RAILS": rails,
                    "UCX_MAX_EAGER_RAILS": rails, "FI_TCP_IFACE": lab.devices()[lab.fastest()][0],
                    **self._setting.options}
        algorithm = self._setting.algorithm(collective)
        if algorithm:
            settings[f"MPIR_CVAR_{collective.replace('_', '').upper()}_INTRA_ALGORITHM"] = algorithm
        command = [str(self._prefix / "bin" / "mpiexec"), "-launcher", "rsh",
                   "-launcher-exec", str(agent), "-iface", "ctl", "-hosts", ",".join(_hosts(lab)),
                   "-n", str(lab.lab.ranks), "-ppn", str(ranks)]
        for name, value in settings.items():
            command += ["-genv", name, value]
        return command


class IntelMpi(Mpi):
    """libfabric's TCP, which has one device: the fastest rail."""

    def _launcher(self, lab: BenchLab, agent: Path, collective: str) -> List[str]:
        settings = {"I_MPI_ROOT": str(self._prefix), "FI_PROVIDER": "tcp",
                    "FI_PROVIDER_PATH": str(self._prefix / "lib"), "I_MPI_PIN": "0",
                    "FI_TCP_IFACE": lab.devices()[lab.fastest()][0], **self._setting.options}
        algorithm = self._setting.algorithm(collective)
        if algorithm:
            settings[f"I_MPI_ADJUST_{collective.replace('_', '').upper()}"] = algorithm
        command = [str(self._prefix / "bin" / "mpiexec.hydra"), "-bootstrap", "rsh",
                   "-bootstrap-exec", str(agent), "-iface", "ctl", "-hosts", ",".join(_hosts(lab)),
                   "-n", str(lab.lab.ranks), "-ppn", str(lab.lab.state.ranks_per_node)]
        for name, value in settings.items():
            command += ["-genv", name, value]
        return command


_KINDS = {"openmpi": OpenMpi, "mpich": Mpich, "intelmpi": IntelMpi}


def _bandwidths(lab: BenchLab) -> Dict[str, str]:
    """Open MPI's parameters for the rate of each rail, in Mbit/s."""
    return {f"btl_tcp_bandwidth_{device}": str(max(1, round(rate * 8 / 1e6)))
            for device, rate in lab.rates().items()}


def _hosts(lab: BenchLab) -> List[str]:
    return [node["ctl"] for node in lab.lab.status()["nodes"]]


def _arguments(spec: BenchSpec) -> List[str]:
    return [spec.collective, spec.dtype, str(spec.seconds), str(spec.iterations or 0),
            str(spec.warmup or 0), str(spec.checks), str(int(spec.in_place)),
            ",".join(sorted(spec.rates)) or "-",
            *[str(size) for size in spec.sizes]]


def _agent(lab: BenchLab) -> Path:
    """A script with ssh's arguments, HOST COMMAND..., that enters HOST's namespace, on its processors."""
    cases = "\n".join(
        f"  {node['ctl']}) namespace={shlex.quote(node['netns'])}; name=lab-node-{node['node']}; "
        f"processors={','.join(map(str, lab.processors(node['node'])))} ;;"
        for node in lab.lab.status()["nodes"])
    path = lab.scratch / "agent.sh"
    path.write_text(
        "#!/bin/sh\n"
        'while [ "${1#-}" != "$1" ]; do shift; done\n'
        'host=$1; shift\n'
        f'case "$host" in\n{cases}\n'
        '  *) echo "agent: $host is no node of this lab" >&2; exit 1 ;;\nesac\n'
        'exec taskset -c "$processors" nsenter --net="$namespace" unshare --uts '
        'sh -c "hostname $name && exec sh -c \\"\\$1\\"" sh "$*"\n', encoding="utf-8")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path
