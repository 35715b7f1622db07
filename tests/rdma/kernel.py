"""The guest's kernel: Debian's, with Soft-RoCE and netem; unpacked into a cache, not installed."""

from __future__ import annotations

import lzma
import os
import re
import shutil
import struct
import subprocess
import tempfile
from pathlib import Path
from typing import List, NamedTuple

from .requirements import PATIENT_APT, SEARCH_PATH, Missing

META_PACKAGE = "linux-image-amd64"  # not the cloud kernel: that one has neither rdma_rxe nor 9p
INITRAMFS_MODULES = ("virtio_pci", "9pnet_virtio", "9p", "overlay", "virtio_rng")


class Kernel(NamedTuple):
    """An unpacked kernel package."""

    root: Path
    version: str

    @property
    def image(self) -> Path:
        """What qemu loads."""
        return self.root / "boot" / f"vmlinux-{self.version}"

    @property
    def modules(self) -> Path:
        """What becomes /lib/modules in the guest."""
        return self.root / "lib" / "modules"


def cache_directory() -> Path:
    """Where kernels are kept: $XDG_CACHE_HOME/nezha/guest."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "nezha" / "guest"


def kernel() -> Kernel:
    """The kernel in the cache; fetched when there is none.

    Raises:
        Missing: it cannot be fetched.
    """
    cache = cache_directory()
    cache.mkdir(parents=True, exist_ok=True)
    found = sorted(cache.glob("linux-image-*/lib/modules/*/modules.dep.bin"))
    if not found:
        fetch(cache)
        found = sorted(cache.glob("linux-image-*/lib/modules/*/modules.dep.bin"))
    version = found[-1].parent.name
    made = Kernel(found[-1].parents[3], version)
    if not made.image.exists():
        temporary = made.image.with_suffix(".new")
        temporary.write_bytes(unpacked(made.image.with_name(f"vmlinuz-{version}").read_bytes()))
        os.replace(temporary, made.image)
    return made


def unpacked(bz_image: bytes) -> bytes:
    """The kernel itself, which qemu can start directly: unpacking it in the guest took half of its start.

    Where it lies is told by its header (Documentation/x86/boot.rst of the kernel: setup_sects,
    payload_offset, payload_length).

    Raises:
        Missing: it is packed in a way of which this knows nothing.
    """
    offset, length = struct.unpack_from("<II", bz_image, 0x248)
    begin = (bz_image[0x1F1] + 1) * 512 + offset
    try:
        kernel_image = lzma.LZMADecompressor().decompress(bz_image[begin:begin + length])
    except lzma.LZMAError as error:
        raise Missing(f"a kernel packed by xz, as Debian's is: {error}") from None
    return kernel_image


def fetch(cache: Path) -> None:
    """Downloads and unpacks the kernel package; what appears in the cache is complete."""
    depends = run(["apt-cache", "depends", META_PACKAGE])
    match = re.search(r"Depends: (linux-image-\d\S*)", depends)
    if match is None:
        raise Missing(f"apt knows no {META_PACKAGE}, which the guest runs; `apt-get update` may help")
    package = match.group(1)
    print(f"fetching {package} for the guest, once (kept in {cache})", flush=True)
    with tempfile.TemporaryDirectory(dir=cache) as scratch:
        run([*PATIENT_APT, "-o", "APT::Sandbox::User=root", "download", package], cwd=scratch)
        archive = next(Path(scratch).glob("*.deb"))
        root = Path(scratch) / "root"
        run(["dpkg-deb", "-x", str(archive), str(root)])
        version = next((root / "lib" / "modules").iterdir()).name
        run(["depmod", "-b", str(root), version])
        shutil.rmtree(cache / package, ignore_errors=True)
        os.rename(root, cache / package)


def module_files(of: Kernel) -> List[Path]:
    """The files of INITRAMFS_MODULES and of what they need, in the order of loading."""
    files: List[Path] = []
    for name in INITRAMFS_MODULES:
        listed = run(["modprobe", "-d", str(of.root), "-S", of.version, "--show-depends", name])
        for line in listed.splitlines():
            words = line.split()
            if words and words[0] == "insmod" and Path(words[1]) not in files:
                files.append(Path(words[1]))
    return files


def run(words: List[str], cwd: str = "/") -> str:
    """Output of a command.

    Raises:
        Missing: it failed; with the command and the end of what it said.
    """
    done = subprocess.run(words, cwd=cwd, env={**os.environ, "PATH": SEARCH_PATH}, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    if done.returncode != 0:
        raise Missing(f"`{' '.join(words)}` failed: {done.stderr.strip()[-400:]}")
    return done.stdout
