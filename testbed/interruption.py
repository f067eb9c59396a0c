"""Ctrl-C: one line and exit code 130, at whatever moment it comes.

Theory of operation.  `guarded` runs a command with a handler of SIGINT that is there before
anything heavy is imported.  The first SIGINT raises KeyboardInterrupt.  From then on the
interruption is what the user is told: an error that follows from it (a library that translates
KeyboardInterrupt, a connection that is left in the middle of an answer) is not printed and does not
decide the exit code, and neither threads nor finalizers print theirs.  A KeyboardInterrupt that
Python drops, as it comes in a finalizer, is raised again.  More Ctrl-C within `PATIENCE` do not cut
the clean-up short; later ones do.  What has a better moment to stop handles the signal itself, as
`emulation.network.interrupts` does.

Only what Python has loaded anyway is imported here; `run_testbed.sh` holds SIGINT back until then.
"""

import signal
import sys
import time
from collections.abc import Callable
from typing import Any

INTERRUPTED = 130
"""Exit code: 128 and the number of SIGINT."""
PATIENCE = 3.0
"""Seconds that a clean-up has to itself."""
AGAIN = 0.05
"""Seconds until a KeyboardInterrupt that was dropped is raised again."""


class Interruption:
    """A handler of SIGINT: whether it has come, and whether the user has been told."""

    def __init__(self) -> None:
        self.came = False
        self.announced = False
        self._first = 0.0
        self._dropped = False

    def __call__(self, _number: int, _frame: object) -> None:
        """Raise KeyboardInterrupt, unless the clean-up after another one goes on."""
        first, dropped = not self.came, self._dropped
        self._dropped = False
        if first:
            self.came, self._first = True, time.monotonic()
            self._silence()
        if first or dropped or time.monotonic() > self._first + PATIENCE:
            raise KeyboardInterrupt

    def check(self) -> None:
        """Raise KeyboardInterrupt if it has come: errors from then on follow from it."""
        if self.came:
            raise KeyboardInterrupt

    def _silence(self) -> None:
        sys.unraisablehook = self._drop
        if logging := sys.modules.get("logging"):
            logging.disable(logging.CRITICAL)
        threading: Any = sys.modules.get("threading")
        if threading is not None:
            threading.excepthook = _ignore

    def _drop(self, unraisable: Any) -> None:
        if unraisable.exc_type is KeyboardInterrupt:
            import threading  # not at the start, where it is not loaded

            self._dropped = True
            main = threading.main_thread().ident
            timer = threading.Timer(AGAIN, signal.pthread_kill, (main, signal.SIGINT))
            timer.daemon = True
            timer.start()


def _ignore(_failure: object) -> None: ...


interruption = Interruption()
"""That of this process."""


def guarded(command: Callable[[], None]) -> int:
    """Run a command of the testbed; return the exit code, 130 if SIGINT has come.

    SIGINT stays ignored if this process was started so, as in a shell's background.
    """
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
        signal.signal(signal.SIGINT, interruption)
    code: Any = 0
    try:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGINT])
        command()
    except SystemExit as end:
        code = end.code
    except BaseException:
        if not interruption.came:
            raise
    finally:
        # The rest is Python's own end, in which it would print what a handler raises.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    # Python notes that KeyboardInterrupt has left code compiled from text (a named tuple's, at an
    # import), and would end by SIGINT for that; it forgets it when other such code is run.
    exec("")  # noqa: S102
    if not interruption.came:
        return code if isinstance(code, int) else int(code is not None)
    if not interruption.announced:
        sys.stderr.write("interrupted\n")
    return INTERRUPTED
