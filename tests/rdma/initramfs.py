"""The guest's first file system: busybox, and what mounts this machine's / as the guest's own."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from .kernel import Kernel, module_files
from .requirements import SEARCH_PATH

# Reads of / may be cached: it does not change under a guest that lives for minutes. What host and guest
# both write may not.
NINE_P = "trans=virtio,version=9p2000.L,msize=512000"

INIT = f"""#!/bin/sh
b=/bin/busybox
$b mount -t proc proc /proc; $b mount -t sysfs sys /sys; $b mount -t devtmpfs dev /dev
for module in /modules/*.ko; do $b insmod $module 2>/dev/null; done
$b mount -t 9p -o ro,{NINE_P},cache=loose host /below || $b poweroff -f
$b mount -t tmpfs -o mode=755 above /above; $b mkdir /above/upper /above/work /above/root
$b mount -t overlay -o lowerdir=/below,upperdir=/above/upper,workdir=/above/work,xino=off root /above/root
r=/above/root
$b mkdir -p $r/proc $r/sys $r/dev $r/run $r/lib/modules
$b mount -t tmpfs run $r/run; $b mkdir $r/run/guest
$b mount -t 9p -o rw,{NINE_P},cache=none control $r/run/guest || $b poweroff -f
$b mount -t 9p -o ro,{NINE_P},cache=loose modules $r/lib/modules
work=$($b cat $r/run/guest/directory)
$b mkdir -p "$r$work"; $b mount -t 9p -o rw,{NINE_P},cache=none work "$r$work" || $b poweroff -f
for d in proc sys dev; do $b mount --move /$d $r/$d; done
exec $b switch_root $r /bin/bash /run/guest/start
"""


def initramfs(of: Kernel) -> Path:
    """The archive for this kernel; built when there is none of this kernel and this INIT."""
    stamp = hashlib.sha256((of.version + INIT).encode()).hexdigest()[:12]
    archive = of.root / f"initramfs-{stamp}"
    if archive.exists():
        return archive
    with tempfile.TemporaryDirectory() as scratch:
        tree = Path(scratch) / "tree"
        for name in ("bin", "proc", "sys", "dev", "below", "above", "modules"):
            (tree / name).mkdir(parents=True)
        busybox = shutil.which("busybox", path=SEARCH_PATH)
        assert busybox is not None, "requirements.provide() was not called"
        shutil.copy(busybox, tree / "bin" / "busybox")
        (tree / "bin" / "sh").symlink_to("busybox")
        for number, module in enumerate(module_files(of)):
            shutil.copy(module, tree / "modules" / f"{number:03d}-{module.name}")
        (tree / "init").write_text(INIT)
        (tree / "init").chmod(0o755)
        names = "\n".join(str(path.relative_to(tree)) for path in sorted(tree.rglob("*")))
        temporary = archive.with_suffix(".new")
        with temporary.open("wb") as output:
            subprocess.run(["cpio", "-o", "-H", "newc", "--quiet"], input=names.encode(), cwd=tree,
                           stdout=output, check=True)
        os.replace(temporary, archive)
    return archive
