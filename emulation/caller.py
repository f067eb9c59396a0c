"""The user behind sudo: what needs no root runs as them, and what root made becomes theirs.

Root is for namespaces, radios and captures.  Spark, with Java and all of its workers, the reports
and the live page need none of it.  They are processes, or commands, of their own, and each begins
with `drop`, which gives root up for good.  Without sudo (a container, CI) root stays root.  So it
does where that user could not read the project or write the output, or is unknown to this machine:
Java needs their name.
"""

from __future__ import annotations

import os
import pwd
import resource
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final, NamedTuple

from capture.process import prctl
from nodeapp.installation import PROJECT

PR_SET_DUMPABLE: Final = 4
OF_ROOT: Final = ("XDG_RUNTIME_DIR", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME")
TEMPORARY: Final = ("TMPDIR", "TEMP", "TMP")


class Caller(NamedTuple):
    """Who called sudo."""

    uid: int
    gid: int


def caller() -> Caller | None:
    """Return the user behind sudo if this process is root; None if there is none."""
    try:
        user = Caller(int(os.environ["SUDO_UID"]), int(os.environ["SUDO_GID"]))
    except (KeyError, ValueError):
        return None
    return user if os.geteuid() == 0 and user.uid != 0 else None


def drop(*writes: Path) -> bool:
    """Become the user behind sudo, for good; return whether this process did.

    It does not if they are unknown here or could not write one of `writes`, which need not exist.
    Home, temporary files and caches are theirs then, and the process may still return to its
    present niceness.  Called before there are threads, and before `die_with_parent`, which the
    kernel then forgets.
    """
    user = caller()
    account = None if user is None else _account(user)
    if user is None or account is None:
        return False
    groups = os.getgrouplist(account.pw_name, user.gid)
    with _for_now(user, groups):
        if not all(map(_reads, (PROJECT / "testbed", Path(sys.executable)))):
            return False
        if not all(map(_writes, writes)):
            return False
    niceness = os.getpriority(os.PRIO_PROCESS, 0)
    with suppress(ValueError):  # a container whose root may not; then it keeps its niceness
        resource.setrlimit(resource.RLIMIT_NICE, (20 - niceness, 20 - niceness))
    os.setgroups(groups)
    os.setresgid(user.gid, user.gid, user.gid)
    os.setresuid(user.uid, user.uid, user.uid)
    with suppress(OSError):  # else its files in /proc would stay root's
        prctl(PR_SET_DUMPABLE, 1)
    _adapt_environment(account)
    return True


def _account(user: Caller) -> pwd.struct_passwd | None:
    """Return a user's entry in the password database; None in a container without one."""
    try:
        return pwd.getpwuid(user.uid)
    except KeyError:
        return None


@contextmanager
def _for_now(user: Caller, groups: list[int]) -> Iterator[None]:
    """Take on a user's rights for a block."""
    before = os.getgroups(), os.getegid()
    os.setgroups(groups)
    os.setegid(user.gid)
    os.seteuid(user.uid)
    try:
        yield
    finally:
        os.seteuid(0)
        os.setegid(before[1])
        os.setgroups(before[0])


def _reads(path: Path) -> bool:
    return os.access(path, os.R_OK | os.X_OK, effective_ids=True)


def _writes(path: Path) -> bool:
    """Return whether a path can be written, or created below the closest folder that exists."""
    path = path.resolve()
    while not os.path.lexists(path) and path != path.parent:
        path = path.parent
    right = os.W_OK | (os.X_OK if path.is_dir() else 0)
    return os.access(path, right, effective_ids=True)


def _adapt_environment(account: pwd.struct_passwd) -> None:
    """Let no variable name a folder that belongs to root."""
    home = account.pw_dir
    kept = os.environ.get("HOME", "")
    with suppress(OSError):
        if kept and Path(kept).stat().st_uid == account.pw_uid:  # sudo was told to keep it
            home = kept
    os.environ |= {"HOME": home, "USER": account.pw_name, "LOGNAME": account.pw_name}
    for variable in OF_ROOT:
        if variable in os.environ and not os.access(os.environ[variable], os.W_OK):
            del os.environ[variable]
    for variable in TEMPORARY:
        if variable in os.environ and not os.access(os.environ[variable], os.W_OK | os.X_OK):
            del os.environ[variable]
    tempfile.tempdir = None
