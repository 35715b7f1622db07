"""Files that appear complete or not at all, files that are read, whether a file may be trusted, and a
sentence for what the system refused.

whole_file() and whole_folder() write beside the destination, and move the result there when it is
complete. In a folder that everybody may write to, such as /tmp, another user can create a name first:
what is written here follows no link of such a user, and goes into no file of theirs. distrusted() is for
what is read there. read_text() waits for nobody.
"""

from __future__ import annotations

import errno
import os
import secrets
import shutil
import stat
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import Iterator, Optional, Union

_LINKS_MAX = 40  # as the kernel's
_ELSEWHERE = "name a file in a folder that this user may write to"
_MORE_SPACE = "free some space there, or name a file elsewhere"
_TO_DO = {
    errno.ENOSPC: _MORE_SPACE, errno.EDQUOT: _MORE_SPACE,
    errno.EROFS: _ELSEWHERE, errno.EACCES: _ELSEWHERE, errno.EPERM: "it takes another user, such as root",
    errno.EMFILE: "raise the limit of open files (ulimit -n)",
    errno.ENFILE: "raise the limit of open files of this host (fs.file-max)",
    errno.EAGAIN: "raise the limit of processes (ulimit -u)",
    errno.ENOMEM: "free some memory",
}


@contextmanager
def whole_file(path: Path) -> Iterator[Path]:
    """A place to write to; what is there takes the place of `path` unless an exception, Ctrl-C included,
    ends the block. Folders are made. Raises OSError where it cannot be written, or another user chose
    where that is.

    A device or a pipe, and a file in a folder that only lets that be changed, is written to itself.
    """
    target = Path(led_to(path))
    if path.exists() and not path.is_file():
        yield path
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    is_own = target.exists() and _is_ours(target.stat().st_uid)
    if target.exists() and not os.access(target.parent, os.W_OK):
        if not is_own:
            raise PermissionError(f"{target} belongs to another user, who could read what is written; "
                                  "name another file")
        yield target
        return
    place = target.with_name(f".{secrets.token_hex(4)}.{target.name}")
    os.close(os.open(place, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666))
    try:
        yield place
        if is_own:
            shutil.copymode(target, place)
        os.replace(place, target)
    finally:
        place.unlink(missing_ok=True)


@contextmanager
def whole_folder(folder: Path) -> Iterator[Path]:
    """A folder to write files into that moves them to `folder` at the end, each in one step, and none
    after an exception. Raises OSError where `folder` cannot be made or written, or another user chose
    where that is."""
    folder = Path(led_to(folder))
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder, prefix=".unfinished-") as place:
        yield Path(place)
        for file in sorted(Path(place).iterdir()):
            os.replace(file, folder / file.name)


def read_text(path: Union[str, Path], bytes_max: int = 64 << 20, errors: str = "strict") -> str:
    """The UTF-8 text of a regular file. Raises OSError where it is no regular file (the writer of a pipe
    may never come), is longer than `bytes_max`, or cannot be read, and UnicodeDecodeError."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY)
    facts = os.fstat(descriptor)
    if not stat.S_ISREG(facts.st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, "it is not a regular file", str(path))
    with open(descriptor, encoding="utf-8", errors=errors) as file:
        if facts.st_size > bytes_max:
            raise OSError(errno.EFBIG, f"it is larger than {bytes_max} bytes", str(path))
        return file.read()


def led_to(path: Path) -> str:
    """Where the links of `path` lead; what does not exist is left as it is. Raises PermissionError for a
    link of a user other than this one and root that stands at the end, or in a folder that everybody may
    write to."""
    place, left, links = "/", os.path.join(os.getcwd(), path).split("/"), 0
    while left:
        part = left.pop(0)
        here = os.path.dirname(place) if part == ".." else os.path.join(place, part)
        try:
            facts = os.lstat(here)
        except FileNotFoundError:
            return os.path.join(here, *left)
        if not stat.S_ISLNK(facts.st_mode):
            place = here
            continue
        links += 1
        if links > _LINKS_MAX:
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(path))
        if not _is_ours(facts.st_uid) and (not left or os.lstat(place).st_mode & stat.S_IWOTH):
            raise PermissionError(f"{here} is a symbolic link of user {facts.st_uid}, who may lead it to "
                                  "any file of yours; name another file")
        target = os.readlink(here)
        left = target.split("/") + left
        place = "/" if target.startswith("/") else place
    return place


def _is_ours(uid: int) -> bool:
    return uid in (os.geteuid(), 0)


def distrusted(path: str) -> Optional[str]:
    """Why what lies at `path` is not this user's own, to follow its name in a sentence; None when it is.

    It is when it belongs to this user or to root, is no symbolic link, and nobody else may write to it.
    What does not exist is nobody's: None.
    """
    try:
        facts = os.lstat(path)
    except FileNotFoundError:
        return None
    if stat.S_ISLNK(facts.st_mode):
        return "is a symbolic link"
    if not _is_ours(facts.st_uid):
        return f"belongs to user {facts.st_uid}"
    if facts.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        return f"can be written by others (mode {stat.S_IMODE(facts.st_mode):04o})"
    return None


def explained(error: OSError) -> str:
    """What the system refused, where, and what to do, in a sentence."""
    what = error.strerror or str(error)
    if what.startswith("No usable temporary directory"):
        return f"{what}; set TMPDIR to a folder with space that this user may write to"
    place = "" if error.filename is None else f"{error.filename}: "
    to_do = _TO_DO.get(error.errno or 0)
    return f"{place}{what}" + (f"; {to_do}" if to_do else "")
