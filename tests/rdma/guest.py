"""Runs a command in a throw-away virtual machine and returns its exit status.

The guest sees this machine's files: / read-only with an overlay in its memory, so that what is installed
here is installed there, and one directory that both write. It has no network card. Emulated (TCG), so
that no /dev/kvm is needed: right in behaviour, slow in everything.

    python -m rdma guest -- ibv_devices
"""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Dict, List, Optional, Sequence

from .initramfs import initramfs
from .kernel import Kernel, kernel
from .requirements import SEARCH_PATH

TIMED_OUT = 124
NO_STATUS = 125  # the guest ended without having run the command to its end

START = """#!/bin/bash
export PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/run LANG=C.UTF-8 TMPDIR=/run/tmp
mkdir -p /run/tmp /dev/pts /dev/shm
mount -t devpts devpts /dev/pts; mount -t tmpfs shm /dev/shm
hostname guest; ulimit -l unlimited; ip link set lo up; stty -onlcr
touch /run/guest/up
{environment}
cd {directory} && {command}
echo $? > /run/guest/status
echo 0 > /proc/sys/kernel/printk; sync; busybox poweroff -f
"""


class Guest:
    """One start of the machine; `directory` is writable inside, under its own path."""

    def __init__(self, directory: Path, processors: int = 2, memory_mib: int = 2048) -> None:
        self.directory = directory.resolve()
        self.processors = processors
        self.memory_mib = memory_mib
        self.boot_seconds: Optional[float] = None  # until the command starts

    def run(self, command: Sequence[str], seconds: float,
            environment: Optional[Dict[str, str]] = None) -> int:
        """The command's exit status; TIMED_OUT or NO_STATUS when it has none. Output goes to ours.

        Raises:
            Missing: the kernel cannot be fetched.
        """
        image = kernel()
        with tempfile.TemporaryDirectory(prefix="guest-") as scratch:
            control = Path(scratch)
            (control / "directory").write_text(str(self.directory))
            exports = "\n".join(f"export {name}={shlex.quote(value)}"
                                for name, value in (environment or {}).items())
            (control / "start").write_text(START.format(
                environment=exports, directory=shlex.quote(str(self.directory)),
                command=" ".join(shlex.quote(word) for word in command)))
            words = self.qemu(image, control)
            begin = time.time()
            machine = subprocess.Popen(words, stdin=subprocess.DEVNULL)
            timed_out = not self.ends(machine, seconds)
            if (control / "up").exists():
                self.boot_seconds = (control / "up").stat().st_mtime - begin
            if timed_out:
                return TIMED_OUT
            status = control / "status"
            return int(status.read_text()) if status.exists() else NO_STATUS

    @staticmethod
    def ends(machine: "subprocess.Popen[bytes]", seconds: float) -> bool:
        """Whether it ended by itself in time; it has ended in any case."""
        end = time.monotonic() + seconds
        try:
            machine.wait(max(0.0, end - time.monotonic()))
            return True
        except subprocess.TimeoutExpired:
            return False
        finally:
            if machine.poll() is None:
                machine.send_signal(signal.SIGKILL)
                machine.wait()

    def qemu(self, image: Kernel, control: Path) -> List[str]:
        """The machine's command line."""
        program = shutil.which("qemu-system-x86_64", path=SEARCH_PATH)
        assert program is not None, "requirements.provide() was not called"
        # It must not outlive this process, however that ends.
        words = ["setpriv", "--pdeathsig", "KILL", program, "-M", "q35,hpet=off",
                 "-accel", "tcg,thread=multi", "-cpu", "Nehalem",  # "max" costs a tenth more to emulate
                 "-smp", str(self.processors), "-m", str(self.memory_mib), "-nodefaults",
                 "-no-user-config", "-display", "none", "-no-reboot", "-serial", "stdio",
                 "-monitor", "none", "-device", "virtio-rng-pci",
                 "-kernel", os.fspath(image.image), "-initrd", os.fspath(initramfs(image)),
                 "-append", "console=ttyS0 quiet loglevel=3 mitigations=off nokaslr audit=0 panic=-1 "
                            "random.trust_cpu=on no5lvl rcupdate.rcu_expedited=1 cryptomgr.notests"]
        shares = (("host", "/", True), ("modules", os.fspath(image.modules), True),
                  ("work", os.fspath(self.directory), False), ("control", os.fspath(control), False))
        for tag, path, read_only in shares:
            words += ["-virtfs", f"local,path={path.replace(',', ',,')},mount_tag={tag},"
                                 f"readonly={'on' if read_only else 'off'},security_model=none,"
                                 "multidevs=remap"]
        return words
