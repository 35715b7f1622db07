"""What the guest needs of this machine, and how to get it: Debian packages, installed once, as root.

Not in tools/setup.sh: only `make test-rdma` starts a virtual machine.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import IO, Dict, List, NamedTuple

APT_SECONDS = 240
SEARCH_PATH = os.pathsep.join((os.environ.get("PATH", ""), "/usr/sbin", "/sbin"))


class Requirement(NamedTuple):
    """A Debian package, and the file or command that shows that it is there."""

    package: str
    evidence: str
    purpose: str

    def there(self) -> bool:
        """Whether the evidence exists."""
        if "/" in self.evidence:
            return any(Path("/usr").glob(self.evidence))
        return shutil.which(self.evidence, path=SEARCH_PATH) is not None


REQUIREMENTS = (
    Requirement("qemu-system-x86", "qemu-system-x86_64", "the virtual machine"),
    Requirement("busybox-static", "busybox", "its first program"),
    Requirement("cpio", "cpio", "its first file system"),
    Requirement("kmod", "modprobe", "kernel modules"),
    Requirement("iproute2", "rdma", "networks and Soft-RoCE devices"),
    Requirement("ibverbs-providers", "lib/*/libibverbs/librxe-rdmav34.so", "verbs on Soft-RoCE"),
    Requirement("rdma-core", "lib/udev/rules.d/60-rdma-ndd.rules", "what RDMA packages share"),
    Requirement("ibverbs-utils", "ibv_rc_pingpong", "the test of the devices"),
    Requirement("libfabric-bin", "fi_info", "what libfabric sees"),
    Requirement("libfabric-dev", "include/rdma/fabric.h", "building raw_fabric"),
)


class Missing(Exception):
    """Something is not on this machine and cannot be put there; the text says what and how to."""


def missing() -> List[Requirement]:
    """What is not there."""
    return [entry for entry in REQUIREMENTS if not entry.there()]


def apt_get(words: List[str], environment: Dict[str, str], output: IO[str]) -> None:
    """Runs it with patience for a slow mirror and none for one that does not answer."""
    patient = ["timeout", str(APT_SECONDS), "apt-get", "-qq", "-o", "Acquire::Retries=1",
               "-o", "Acquire::http::Timeout=20", "-o", "Acquire::https::Timeout=20"]
    subprocess.run([*patient, *words], env=environment, stdout=output, stderr=subprocess.STDOUT)


def provide(log: Path) -> None:
    """Installs what is missing.

    Raises:
        Missing: without root or apt, or when apt fails; names packages and the command.
    """
    absent = missing()
    if not absent:
        return
    packages = [entry.package for entry in absent]
    lines = "".join(f"\n  {entry.package} for {entry.purpose}" for entry in absent)
    command = "apt-get install --no-install-recommends " + " ".join(packages)
    if shutil.which("apt-get") is None:
        raise Missing(f"these Debian packages, and no apt-get to install them:{lines}")
    if os.geteuid() != 0:
        raise Missing(f"{lines}\nas root: {command}")
    print(f"installing {' '.join(packages)} (log: {log})", flush=True)
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("w") as output:
        environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
        for words in (["update"], ["-y", *command.split()[1:]]):
            apt_get(words, environment, output)
    if missing():
        raise Missing(f"{' '.join(e.package for e in missing())}: apt-get failed, see {log}")
