from __future__ import annotations

import errno
import os
import resource

from capture.process import explained


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
