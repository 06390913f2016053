"""Whether folders and files are this user's alone: whoever could write to them could run what he likes as this user.

As sshd asks of a home folder (StrictModes): each folder on the way, as written and as links lead, belongs to root or to
this user, and nobody else may write to it; or, as to /tmp, may, but not replace what is another's there.
"""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

_LINKS = 40
"""So many links are followed on the way to one folder, as Linux does."""


def exposed(folder: Path) -> str | None:
    """Say how another user could replace a folder, and what to do; None where only this user and root could."""
    here, ahead, links = Path("/"), [*reversed(folder.absolute().parts)], 0
    trusted = {0, os.getuid(), here.stat().st_uid}  # whose is / can replace all, root or not
    how = "other users may replace it"
    while ahead:
        name = ahead.pop()
        path = here.parent if name == ".." else here / name
        status = path.lstat()
        if status.st_uid not in trusted:
            return f"{how}: {path} belongs to another user (chown it)"
        if stat.S_ISLNK(status.st_mode):
            links += 1
            if links > _LINKS:
                raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(folder))
            ahead += reversed(path.readlink().parts)
            continue
        if ahead and not status.st_mode & stat.S_ISVTX and (who := writers(path, status)):
            return f"{how}: {who} may write to its parent {path} (chmod go-w {path}, or +t)"
        here = path
    return None


def writers(path: Path, status: os.stat_result) -> str | None:
    """Name who may write to a file or folder beside its owner; a group that is this user's alone does not count."""
    if status.st_mode & stat.S_IWOTH:
        return "everybody"
    if status.st_mode & stat.S_IWGRP and not _is_own(path, status.st_gid):
        return "its group"
    return None


def _is_own(path: Path, group: int) -> bool:
    """Whether a group has this user alone, as where new files are a private group's to write (umask 002).

    It is called as the user is, and lists no others; and no list of access beside the mode lets further users in.
    """
    import grp
    import pwd

    if os.getuid() == 0:
        return False
    try:
        user, found = pwd.getpwuid(os.getuid()), grp.getgrgid(group)
    except KeyError:
        return False
    if found.gr_name != user.pw_name or not {*found.gr_mem} <= {user.pw_name}:
        return False
    try:
        return not os.getxattr(path, "system.posix_acl_access", follow_symlinks=False)
    except (AttributeError, OSError):  # a system, or a file, without
        return True


def content(path: Path) -> bytes:
    """Read a file that only this user can change; OSError if it is a link, has a second name, or others may write."""
    descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0))
    with os.fdopen(descriptor, "rb") as file:
        status = os.fstat(descriptor)
        alone = stat.S_ISREG(status.st_mode) and status.st_nlink < 2 and status.st_uid == os.getuid()  # 0: replaced
        if not alone or writers(path, status):
            raise OSError(errno.EPERM, "not this user's alone", str(path))
        return file.read()


def locked(descriptor: int) -> bool | None:
    """Lock an open file until it is closed; False while another process has it, None where there are no locks."""
    import fcntl

    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return None
    return True
