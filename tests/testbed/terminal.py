"""A command on a terminal of its own, as a user has it."""

from __future__ import annotations

import os
import pty
import re
import select
import signal
import time

import psutil

from nodeapp.installation import PROJECT

PROMPT = "testbed> "


class Terminal:
    """A command whose controlling terminal is a pseudo-terminal."""

    def __init__(self, command: list[str]) -> None:
        pid, self._master = pty.fork()
        if pid == 0:
            os.chdir(PROJECT)
            signal.signal(signal.SIGHUP, signal.SIG_DFL)  # the tests may run under nohup
            os.execv(command[0], command)
        self.process = psutil.Process(pid)
        self._seen = ""

    def until(self, pattern: str, seconds: float = 60.0) -> str:
        """Return what appears up to and including `pattern`."""
        deadline = time.monotonic() + seconds
        while (found := re.search(pattern, self._seen)) is None:
            left = deadline - time.monotonic()
            assert left > 0, f"no {pattern!r} in {self._seen!r}"
            if select.select([self._master], [], [], left)[0]:
                self._seen += os.read(self._master, 65_536).decode("utf-8", "replace")
        text, self._seen = self._seen[: found.end()], self._seen[found.end() :]
        return text

    def type(self, text: str) -> None:
        os.write(self._master, text.encode())

    def ask(self, line: str, seconds: float = 30.0) -> str:
        """Type a line at the prompt and return the answer."""
        self.type(line + "\n")
        return self.until(PROMPT, seconds)

    def hang_up(self) -> None:
        """Close the terminal, as a lost connection does."""
        os.close(self._master)

    def ended(self) -> int:
        """Wait for the command's end and return its exit code."""
        code: int = self.process.wait(120)
        return code

    def close(self) -> None:
        if self.process.is_running():
            self.process.terminate()
            self.process.wait(60)
        os.close(self._master)
