"""Runs one script inside its namespaces: `python -m emulation.mn.runner CONFIG.json`.

It is process 1 there (`emulation.mn.isolation`).  Whatever a script does, its leftover processes
are ended, the run folder is complete, and standard error gets one line about it, never a traceback.

The script runs in the folder `files` of the run, which stands in for the one in which the command
was given: it has a link to each entry there, so that the same relative names work.  What the script
writes under a new name without a path is then in the run folder; the links are removed at the end.
A script that uses `..` would not find its files that way, so it runs where the command was given.

Exit codes: 0, or what the script passed to sys.exit; 1 if it failed; 130 after Ctrl-C.
"""

from __future__ import annotations

import atexit
import os
import re
import runpy
import signal
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import CodeType
from typing import Any, Final, NoReturn

from emulation.mn import record
from emulation.mn.missing import MissingPrograms, write_sudo
from emulation.mn.session import (
    AGAIN,
    MEDIUM,
    Ended,
    ScriptError,
    Session,
    SessionSpec,
    TimeIsUp,
    environment,
)
from emulation.network.interrupts import heeded, let_go_after
from nodeapp.parameters import suggestion

TO_BUILD: Final = 120.0
"""Seconds that a script with `--for` may take to build its network, in addition."""
PREPARING: Final = 30.0
"""Seconds that a program which prepares the namespace may take."""
TO_LEAVE: Final = 3.0
"""Seconds that the script's `atexit` handlers may take."""
FAILED, INTERRUPTED = 1, 130
FILES: Final = "files"
"""Folder in the run folder."""


class Outcome:
    """How a script ended: exit code, and one line if it failed."""

    def __init__(self) -> None:
        self.code = 0
        self.error: str | None = None
        self.line: int | None = None
        self.cut_at: int | None = None
        self.ended = "completed"


def main(arguments: list[str]) -> int:
    """Run the script of a configuration; return the exit code."""
    session = Session(SessionSpec.load(Path(arguments[0])))
    os.environ.update(environment(session))
    outcome = Outcome()
    nets: list[Any] = []
    missing = MissingPrograms(session)
    threading.excepthook = lambda failure: _thread_failed(session, nets, failure)
    interrupt = _Interrupt()
    for number in heeded():
        if number != signal.SIGINT:
            signal.signal(number, interrupt)
    signal.signal(signal.SIGALRM, _time_is_up)
    _caught(lambda: _run(session, nets, missing), session, outcome)
    _ignore_signals()
    for net in list(nets):
        _close(net)
    if outcome.ended == "completed" and session.reached != "built":
        session.say("the script ended without building a network: call net.build()")
    missing.report()
    os.chdir("/")
    if (session.spec.folder / FILES).is_dir():
        tidy_files(session.spec.folder / FILES)
    _write(session, outcome)
    return outcome.code


def _ignore_signals() -> None:
    """Let no signal interrupt the clean-up after the script."""
    signal.setitimer(signal.ITIMER_REAL, 0)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGALRM):
        signal.signal(number, signal.SIG_IGN)


def leave(code: int) -> NoReturn:
    """End this process without waiting for threads that the script left, as Python would."""
    at_exit = threading.Thread(
        target=atexit._run_exitfuncs,  # the prompt's history is one
        daemon=True,
    )
    at_exit.start()
    at_exit.join(TO_LEAVE)
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):  # its reader is gone, or the script closed it
            stream.flush()
    os._exit(code & 0xFF)


def _prepare(session: Session) -> None:
    """Bring up loopback, show this namespace's devices in /sys, and create folders and programs."""
    from emulation.mn.switches import start_controller, write_controllers
    from emulation.network.stand_ins.programs import write as write_stand_ins

    for words in (
        ["ip", "link", "set", "lo", "up"],
        ["mount", "-t", "sysfs", "sysfs", "/sys"],
    ):
        # A container may forbid the mount, without which a script loses little.
        with suppress(OSError, subprocess.TimeoutExpired):
            subprocess.run(words, capture_output=True, check=False, timeout=PREPARING)
    session.logs.mkdir(exist_ok=True)
    session.programs.mkdir(exist_ok=True)
    write_controllers(session.programs)
    write_sudo(session.programs)
    write_stand_ins(session.programs, session.spec.state / MEDIUM)
    if session.spec.controller is not None:
        start_controller(session, session.spec.controller)


class _Interrupt:
    """Handler that ends the script.

    The command repeats its signal until the script has ended; the script gets `AGAIN` seconds to
    clean up before the next one counts.
    """

    def __init__(self) -> None:
        self._next = 0.0

    def __call__(self, number: int, _frame: Any) -> None:
        let_go_after(number)
        now = time.monotonic()
        if now >= self._next:
            self._next = now + AGAIN
            raise Ended


def _time_is_up(_number: int, _frame: Any) -> None:
    raise TimeIsUp


def _run(session: Session, nets: list[Any], missing: MissingPrograms) -> None:
    """Run the script as `python SCRIPT ARGUMENTS` would."""
    from emulation.mn.provided import provide

    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGINT])
    record.begin(session)
    _prepare(session)
    spec = session.spec
    code = compile(spec.script.read_bytes(), str(spec.script), "exec")  # PEP 263: any encoding
    provide(session, nets)
    sys.argv = [str(spec.script), *spec.arguments]
    sys.path.insert(0, str(spec.script.parent))
    own = [folder for folder in spec.packages if folder not in sys.path]
    sys.path.extend(own)
    shared = [path for path in (os.environ.get("PYTHONPATH"), *own) if path]
    os.environ["PYTHONPATH"] = os.pathsep.join(shared)  # of the nodes' programs
    enter_files(spec.folder, spec.script)
    missing.watch()
    if spec.seconds is not None:
        session.allow(spec.seconds + TO_BUILD)
    _execute(code)


def _execute(code: CodeType) -> None:
    """Execute the script as the main module."""
    runpy._run_module_code(  # type: ignore[attr-defined]  # what run_path does with a file's code
        code, None, "__main__", pkg_name="", script_name=code.co_filename
    )


def _caught(work: Callable[[], None], session: Session, outcome: Outcome) -> None:
    """Call `work` and note how it ended."""
    try:
        try:
            work()
        finally:
            _ignore_signals()
    except TimeIsUp as over:
        _out_of_time(session, outcome, over)
    except (KeyboardInterrupt, Ended):
        outcome.code, outcome.ended = INTERRUPTED, "interrupted"
    except SystemExit as leaving:
        _left(leaving, session, outcome)
    except SyntaxError as error:
        if error.filename not in (None, str(session.spec.script)):
            _failed(session, outcome, error)
            return
        outcome.line = error.lineno
        _failed(session, outcome, error, f"syntax error: {error.msg}")
    except BaseException as error:  # noqa: BLE001  whatever a script raises ends in one line
        _failed(session, outcome, error)


def _out_of_time(session: Session, outcome: Outcome, over: TimeIsUp) -> None:
    """Note that the time of `--for` is over, the usual end of a script that runs on."""
    if session.reached == "built":
        if not session.at_prompt:
            outcome.cut_at = _line_of(session, over)
        return
    seconds = (session.spec.seconds or 0.0) + TO_BUILD
    outcome.code, outcome.ended = FAILED, "timed out"
    outcome.error = f"no network was built within {seconds:g} s"
    session.say(outcome.error)


def _thread_failed(session: Session, nets: list[Any], failure: Any) -> None:
    """Report that a thread of the script has ended with an error."""
    if failure.exc_type is SystemExit or failure.exc_value is None:
        return
    if isinstance(failure.exc_value, ScriptError) and not nets:
        return  # the network that it asks has been stopped
    line = _line_of(session, failure.exc_value)
    if line is None:
        threading.__excepthook__(failure)
        return
    problem = str(failure.exc_value).partition("\n")[0]
    session.limit(f"thread at line {line}", f"it has ended: {failure.exc_type.__name__}: {problem}")


def _left(leaving: SystemExit, session: Session, outcome: Outcome) -> None:
    """Note what a script passed to sys.exit."""
    if leaving.code is None or isinstance(leaving.code, int):
        outcome.code = int(leaving.code or 0)
    else:
        outcome.code, outcome.error = FAILED, str(leaving.code)
    if outcome.code:
        outcome.ended = "failed"
        outcome.line = _line_of(session, leaving)
        outcome.error = outcome.error or f"the script called sys.exit({outcome.code})"
        session.say(outcome.error, outcome.line)


def _failed(
    session: Session, outcome: Outcome, error: BaseException, text: str | None = None
) -> None:
    """Note an error of the script, or of something it called, with the script's line."""
    outcome.code, outcome.ended = FAILED, "failed"
    if outcome.line is None:
        outcome.line = _line_of(session, error)
    first = (str(error).strip() or "no message").splitlines()[0]
    first = first.removesuffix(" (unknown location)") + _meant(error)  # a module of ours
    outcome.error = text or (
        first if isinstance(error, ScriptError) else f"{type(error).__name__}: {first}"
    )
    session.say(outcome.error, outcome.line)
    with (session.logs / "script.log").open("a", encoding="utf-8") as log:
        traceback.print_exception(error, file=log)


def _meant(error: BaseException) -> str:
    """Return advice on a failed import: a similar name, or where to install the module."""
    if not isinstance(error, ImportError):
        return ""
    name, known = str(error.name), list(sys.modules)
    if isinstance(error, ModuleNotFoundError) and not name.startswith("mn_wifi"):
        return f" (scripts run with {sys.executable}: install it there)"
    match = re.match(r"cannot import name '(\w+)'", str(error))
    if match is not None and name in sys.modules:
        name, known = match[1], list(vars(sys.modules[name]))
    return suggestion(name, known)


def _line_of(session: Session, error: BaseException) -> int | None:
    """Return the line of the script at which an error happened."""
    lines = [
        frame.lineno
        for frame in traceback.extract_tb(error.__traceback__)
        if frame.filename == str(session.spec.script)
    ]
    return lines[-1] if lines else None


def _close(net: Any) -> None:
    """Stop a network that the script left running; errors go to the log."""
    try:
        net.stop()
    except BaseException as error:  # noqa: BLE001  others are still to be stopped
        log = net.session.logs / "script.log"
        with log.open("a", encoding="utf-8") as file:
            traceback.print_exception(error, file=file)


def _write(session: Session, outcome: Outcome) -> None:
    """Record how the script ended."""
    spec = session.spec
    begun = record.read(spec.folder, []) or record.begin(session)
    ending = {
        "seconds": round(session.now(), 3),
        "reached": session.reached,
        "ended": outcome.ended,
        "exit_code": outcome.code,
        "cut_at": outcome.cut_at,
        "error": outcome.error,
        "line": outcome.line,
        "limits": tuple(session.limits),
        "notes": tuple(session.notes),
        "owner": None,
    }
    ended = begun.model_copy(update=ending)
    record.write(spec.folder, ended)
    for network in session.networks[1:]:
        record.write(network.folder, ended)


def enter_files(run_folder: Path, script: Path) -> Path | None:
    """Make the folder and change into it; return None if the script needs the current one."""
    if b"../" in script.read_bytes():
        return None
    here, folder = Path.cwd(), run_folder / FILES
    folder.mkdir()
    for entry in here.iterdir():
        (folder / entry.name).symlink_to(entry)
    os.chdir(folder)
    return folder


def tidy_files(folder: Path) -> None:
    """Remove the links, and the folder if nothing is left."""
    for entry in folder.iterdir():
        if entry.is_symlink():
            entry.unlink()
    with suppress(OSError):
        folder.rmdir()


if __name__ == "__main__":
    leave(main(sys.argv[1:]))
