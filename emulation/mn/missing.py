"""Programs that a script calls but that are not installed: each is reported as a limit.

Theory of operation.  A shell complains about a missing program and goes on, and so does the script,
which then measures nothing.  The nodes' shells (bash) call a function that adds the name to a file;
what the script itself runs is seen by a Python audit hook (PEP 578), which looks up the programs of
each command line.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from emulation.mn.session import Session

NOTED: Final = "missing-programs"
"""File in the state folder: one name per line."""
OF_MININET: Final = ("ethtool",)
"""Programs that Mininet itself calls to set up wires, which are set up without them too."""
HANDLER: Final = "BASH_FUNC_command_not_found_handle%%"
"""Variable by which bash inherits the function (`man bash`, COMMAND EXECUTION)."""
BUILT_IN: Final = frozenset(
    (
        *(":", ".", "[", "alias", "bg", "break", "case", "cd", "command", "continue", "disown"),
        *("do", "done", "echo", "elif", "else", "esac", "eval", "exec", "exit", "export"),
        *("false", "fg", "fi", "for", "function", "getopts", "hash", "if", "in", "jobs", "kill"),
        *("let", "local", "logout", "printf", "pushd", "popd", "pwd", "read", "readonly"),
        *("return", "select", "set", "shift", "shopt", "source", "test", "then", "time", "times"),
        *("trap", "true", "type", "typeset", "ulimit", "umask", "unalias", "unset", "until"),
        *("wait", "while", "{", "}", "!", "[[", "]]"),
    )
)
"""Words of the shell that are not programs."""
BEFORE: Final = frozenset(("sudo", "exec", "nohup", "env", "time", "command", "setsid", "nice"))
"""Words that are followed by the name of a program."""


SUDO: Final = """#!/bin/sh
while :; do
    case $1 in
        -[ugp]) shift 2 ;;
        -* | *=*) shift ;;
        *) break ;;
    esac
done
exec "$@"
"""
"""Stand-in for sudo, if it is not installed: a script's processes are root's."""


def write_sudo(folder: Path) -> None:
    """Write `sudo` into a folder of the nodes' PATH, unless this machine has it."""
    if shutil.which("sudo") is None:
        program = folder / "sudo"
        program.write_text(SUDO, encoding="utf-8")
        program.chmod(0o755)


def programs_of(command: str) -> Iterator[str]:
    """Yield the programs that a shell command calls, as far as plain words name them."""
    plain = re.sub(r"\d*[<>]&\S*|&>+", " >", command.replace("\n", ";"))  # without redirections
    lexer = shlex.shlex(plain, posix=True, punctuation_chars=";&|()")
    lexer.whitespace_split = True
    lexer.commenters = ""
    try:
        words = list(lexer)
    except ValueError:  # quotes that are left open
        return
    first = True
    for word in words:
        if set(word) <= set(";&|()"):
            first = True
        elif first and (re.match(r"\w+=", word) or word in BEFORE):
            continue
        elif first:
            first = word in BUILT_IN and word in {"if", "then", "else", "do", "while", "until", "!"}
            if re.fullmatch(r"[\w.+/-]+", word) and word not in BUILT_IN:
                yield word


class MissingPrograms:
    """Watches for missing programs."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._noted = session.spec.state / NOTED
        self._busy = False

    def watch(self) -> None:
        """Begin to watch this process, and all shells that it starts."""
        os.environ[HANDLER] = (
            f'() {{ echo "$1" >>{shlex.quote(str(self._noted))}; '
            'printf "bash: %s: command not found\\n" "$1" >&2; return 127; }'
        )
        sys.addaudithook(self._hook)

    def report(self) -> None:
        """Report the programs that the nodes' shells have missed."""
        try:
            names = self._noted.read_text(encoding="utf-8", errors="replace").splitlines()
        except FileNotFoundError:
            return
        for name in dict.fromkeys(names):
            if name not in OF_MININET:
                self._limit(name)

    def _hook(self, event: str, arguments: tuple[Any, ...]) -> None:
        if event not in ("os.system", "subprocess.Popen") or self._busy:
            return
        if self._session.line() is None:  # not the script's doing
            return
        self._busy = True
        try:
            for name in self._called(event, arguments):
                if shutil.which(name) is None:
                    self._limit(name)
        finally:
            self._busy = False

    @staticmethod
    def _called(event: str, arguments: tuple[Any, ...]) -> Iterator[str]:
        if event == "os.system":
            yield from programs_of(os.fsdecode(arguments[0]))
            return
        words = arguments[1]
        words = [words] if isinstance(words, str | bytes | os.PathLike) else list(words)
        texts = [os.fsdecode(word) for word in words]
        if texts[:1] and Path(texts[0]).name in ("sh", "bash") and texts[1:2] == ["-c"]:
            yield from programs_of(texts[2])
        elif texts and "/" not in texts[0]:
            yield texts[0]

    def _limit(self, name: str) -> None:
        self._session.limit(f"program {name}", "it is missing: the call does nothing; install it")
