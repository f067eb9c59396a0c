"""What fails under a low limit of the shell names it."""

from __future__ import annotations

import errno
import os
import resource
import subprocess
import sys

import pytest

from capture.process import explained, low_limits
from nodeapp.installation import PROJECT


@pytest.mark.parametrize(
    ("files", "memory", "text"),
    [
        (resource.RLIM_INFINITY, resource.RLIM_INFINITY, ""),
        (1024, resource.RLIM_INFINITY, ""),
        (256, resource.RLIM_INFINITY, "256 open files are allowed: ulimit -n 4096"),
        (1024, 2 * 10**9, "2.0 GB of address space are allowed, of which Java and libraries "
         "reserve more than they use: ulimit -v unlimited"),
    ],
)  # fmt: skip
def test_limits_are_named_with_what_raises_them(
    files: int, memory: int, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    limits = {resource.RLIMIT_NOFILE: files, resource.RLIMIT_AS: memory}
    monkeypatch.setattr(resource, "getrlimit", lambda kind: (limits[kind], limits[kind]))
    assert low_limits() == text


def test_a_command_without_room_for_its_libraries_says_so_in_a_line() -> None:
    result = subprocess.run(
        ["sh", "-c", f"ulimit -v 400000; exec {sys.executable} -m testbed list"],
        cwd=PROJECT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 1
    assert result.stderr.startswith("error: ")
    assert result.stderr.count("\n") == 1
    assert "0.4 GB of address space are allowed" in result.stderr


def test_too_many_open_files_names_the_limit() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    opened = []
    resource.setrlimit(resource.RLIMIT_NOFILE, (64, hard))
    try:
        while True:
            opened.append(os.open("/dev/null", os.O_RDONLY))
    except OSError as error:
        said = explained(error)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        for descriptor in opened:
            os.close(descriptor)
    assert said == (
        "Too many open files: a process may have 64 (raise the limit: ulimit -n 256)"
    ) or said.startswith("Too many open files: a process may have")
    assert explained(OSError(errno.ENFILE, "Too many open files in system")).endswith(
        "on this machine (raise the limit: sysctl fs.file-max)"
    )
    assert explained(OSError(errno.ENOENT, "No such file or directory")) == (
        "No such file or directory"
    )
