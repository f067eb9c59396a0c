"""A run on a map while it goes on, in a browser on this machine: `run --live`, `mn --live`.

A process of its own follows the run's folder, as anybody could (`testbed.live.run`,
`testbed.live.script`).  It asks nothing of the run's processes, and has the lowest priority.  It
listens on 127.0.0.1 alone, answers requests to that name alone, and takes no commands.  The page
draws as the replay in a report does, with the same code.

    /         the page
    /state    the present state, as JSON; `?since=A,B,C,D`, an answer's `next`, omits what that had

For its parent it prints, on a line each: the address; that a page has asked for the first time;
that one has learnt how the run ended.  Then it may be ended.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from socket import SHUT_RDWR
from threading import BoundedSemaphore, Event, Thread
from typing import Any, Final, Protocol, Self
from urllib.parse import parse_qs, urlsplit

from capture.process import die_with_parent
from emulation.caller import drop
from emulation.errors import RunFolderError
from emulation.network.processes import share_as
from testbed import background
from testbed.background import LOWEST
from testbed.live.feed import Cursor

WAIT: Final = 0.2
"""Seconds between two checks whether a script's network is built."""
LOOK: Final = 1.0
"""Seconds between two looks at a run's new data, if no page asks."""
LAST: Final = 1.0
"""Seconds after the end of a run in which its page may learn of that."""
SILENT: Final = 5.0
"""Seconds for which a browser may stall in the middle of a request or of an answer."""
THREADS: Final = 32
"""Connections that are served at a time; others wait."""
ASKED: Final = "asked"
TOLD: Final = "told"
HOSTS: Final = ("127.0.0.1", "localhost")


class State(Protocol):
    """What the page shows."""

    def scene(self) -> dict[str, Any]:
        """Return what does not change."""

    def state(self, cursor: Cursor) -> dict[str, Any]:
        """Return the present state, and what has come since a cursor."""

    def look(self) -> bool:
        """Take in what has come since the last look; return whether the run goes on."""


def state_of(folder: Path) -> State:
    """Return the state of a run, or of a script's run once its network is built.

    Raises `RunFolderError` if there is no run.
    """
    if (folder / "scenario.json").exists():
        from testbed.live.run import FollowedRun

        return FollowedRun(folder)
    from testbed.live.script import FollowedScript

    script = FollowedScript(folder)
    while not script.ready():
        time.sleep(WAIT)
    return script


def page_of(scene: dict[str, Any]) -> str:
    """Return the page, with the scene in it."""
    # Not above: the virtual machine, which has `run` but no page, lacks them.
    from markupsafe import Markup

    from spark_analysis.replay.packing import as_script
    from spark_analysis.report.environment import environment

    data = Markup(as_script({name: scene[name] for name in scene if name != "legend"}))  # noqa: S704
    replay = {
        "title": "The run, while it goes on",
        "legend": scene["legend"],
        "feed": "live.js",
        "notes": ["What is shown is a second or two old."],
        "live": True,
    }
    page = environment().get_template("live.html")
    return page.render(title=scene["title"], replay=replay, replay_json=data)


class _Handler(BaseHTTPRequestHandler):
    server: Server

    def setup(self) -> None:
        """Let a connection that stalls end."""
        self.request.settimeout(SILENT)
        super().setup()

    def do_GET(self) -> None:  # its name in the standard library
        """Answer a request for the page or the state."""
        host = (self.headers.get("Host") or "").rpartition(":")[0]
        if host not in HOSTS:  # another site's name for this address
            self.send_error(403)
            return
        url = urlsplit(self.path)
        state: dict[str, Any] | None = None
        try:
            if url.path == "/":
                text, kind = page_of(self.server.state.scene()), "text/html; charset=utf-8"
            elif url.path == "/state":
                cursor = _cursor(parse_qs(url.query).get("since", [""])[0])
                state = self.server.state.state(cursor)
                text, kind = json.dumps(state), "application/json"
            else:
                self.send_error(404)
                return
        except Exception:
            self.send_error(500)
            raise
        if state is not None:
            self.server.note_page()
        self._send(text, kind)
        if state is not None and state["ended"] is not None:
            self.server.note_end()

    def _send(self, text: str, kind: str) -> None:
        data = text.encode()
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(data)))
        self.send_header("Cache-Control", "no-store")
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: Any) -> None:  # its name there
        """Log nothing."""


def _cursor(text: str) -> Cursor:
    """Return the cursor of a request: `next` of an answer, with commas between; else the first."""
    try:
        log, hops, loads, tracks = map(int, text.split(","))
    except ValueError:
        return Cursor()
    return Cursor(max(0, log), max(0, hops), max(0, loads), tracks)


class Server(ThreadingHTTPServer):
    """Serves a page of a state; `say` is told its address, and then `ASKED` and `TOLD`."""

    def __init__(self, state: State, say: Callable[[str], None]) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.state = state
        self._say = say
        self._has_page = self._end_learnt = self._failed = False
        self._free = BoundedSemaphore(THREADS)
        self._open: dict[Any, None] = {}
        """The connections that are served, the oldest first."""
        say(f"http://127.0.0.1:{self.server_address[1]}/")

    def process_request(self, request: Any, client_address: Any) -> None:
        """Serve a connection in a thread of its own, when one of `THREADS` is free.

        If none becomes free the oldest connection is closed: sending a byte now and then does not
        hold a thread.
        """
        while not self._free.acquire(timeout=SILENT):
            for oldest in list(self._open)[:1]:
                with suppress(OSError):
                    oldest.shutdown(SHUT_RDWR)
        self._open[request] = None
        super().process_request(request, client_address)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Serve a connection, and let the next one have the thread."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            del self._open[request]
            self._free.release()

    def note_page(self) -> None:
        """Take note that there is a page, which is to get its answer."""
        if not self._has_page:
            self._has_page = True
            self._say(ASKED)

    def note_end(self) -> None:
        """Take note that a page has learnt how the run ended."""
        if not self._end_learnt:
            self._end_learnt = True
            self._say(TOLD)

    def keep_looking(self) -> None:
        """Take in the run's data until it ends: a first look late in it would have much to read."""
        try:
            while self.state.look():
                time.sleep(LOOK)
        except Exception as error:  # noqa: BLE001  requests will meet it too
            self._complain(error)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Print what went wrong, except if a browser went away before it had its answer."""
        error = sys.exception()
        if error is not None and not isinstance(error, ConnectionError):
            self._complain(error)

    def _complain(self, error: BaseException) -> None:
        """Print what went wrong, once: the run's own output is on this terminal."""
        if not self._failed:
            self._failed = True
            complain(f"{type(error).__name__}: {error}")


class Live:
    """The process that shows a run; a context manager that ends it.

    A page that is open when the run ends has `last` seconds to learn how.
    """

    def __init__(self, last: float = LAST) -> None:
        self._last = last
        self._process: subprocess.Popen[bytes] | None = None
        self._reader: Thread | None = None
        self._addressed, self._page_opened, self._end_learnt = Event(), Event(), Event()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._process is not None and self._reader is not None:
            if self.has_page:
                self._end_learnt.wait(self._last)
            self._process.kill()
            self._process.wait()
            self._reader.join()

    def start(self, folder: Path, say: Callable[[str], None]) -> None:
        """Start it for a run, unless that was done, and go on; called by the main thread.

        A thread tells `say` the page's address when the process listens: at its priority that may
        take seconds, in which the run must be looked after.
        """
        if self._process is not None:
            return
        self._process = background.start(
            __spec__.name,
            [str(folder), str(os.getpid())],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
        )
        output = self._process.stdout
        assert output is not None

        def read() -> None:
            with output:
                for line in output:
                    text = line.decode().strip()
                    if text == ASKED:
                        self._page_opened.set()
                    elif text == TOLD:
                        self._end_learnt.set()
                    else:
                        say(text)
                        self._addressed.set()
            for event in (self._addressed, self._end_learnt):  # it has ended
                event.set()

        self._reader = Thread(target=read, daemon=True)
        self._reader.start()

    @property
    def has_page(self) -> bool:
        """Whether a page has asked for the run."""
        return self._page_opened.is_set()

    def await_address(self, seconds: float) -> None:
        """Wait for the address, at most `seconds`, or until it can no longer come."""
        if self._reader is not None:
            self._addressed.wait(seconds)


def tell_address(address: str) -> None:
    """Print where a page is."""
    from testbed.options import console  # takes a second; the process has no use for it

    console.say(f"live: {address}")


def complain(text: str) -> None:
    """Print that there is no page, or no longer one."""
    print(f"error: the page of --live: {text}; the run goes on", file=sys.stderr, flush=True)


def serve(folder: Path, say: Callable[[str], None]) -> None:
    """Serve a run's page until the process ends.

    Raises `RunFolderError` if there is no run.
    """
    with Server(state_of(folder), say) as server:
        Thread(target=server.keep_looking, daemon=True).start()
        server.serve_forever()


if __name__ == "__main__":
    drop()
    die_with_parent(parent=int(sys.argv[2]))
    os.setpriority(os.PRIO_PROCESS, 0, LOWEST)
    share_as(os.getpid(), LOWEST)
    try:
        serve(Path(sys.argv[1]), lambda text: print(text, flush=True))
    except RunFolderError as error:
        complain(str(error))
        sys.exit(1)
