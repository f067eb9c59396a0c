"""Headless Chromium, driven by its driver over the W3C WebDriver protocol: no package is needed."""

from __future__ import annotations

import base64
import json
import re
import shutil
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import pytest

_ELEMENT: Final = "element-6066-11e4-a52e-4f735466cecf"
"""Key of an element in an answer (WebDriver, section 12.1)."""


def missing() -> str | None:
    """Return why there is no browser here, None if there is one."""
    lacking = [name for name in ("chromium", "chromedriver") if shutil.which(name) is None]
    if lacking:
        return f"no {' and no '.join(lacking)}: apt-get install chromium chromium-driver"
    return None


class Browser:
    """One session: pages from files, at a width of one's choice."""

    def __init__(self, address: str) -> None:
        self._address = address
        arguments = ["--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"]
        arguments += ["--disable-dev-shm-usage", "--force-color-profile=srgb"]
        options = {
            "goog:chromeOptions": {"args": arguments},
            "goog:loggingPrefs": {"browser": "ALL"},
        }
        made = self._call("POST", "/session", {"capabilities": {"alwaysMatch": options}})
        self._address += f"/session/{made['sessionId']}"

    def _call(self, method: str, path: str, body: Any = None) -> Any:
        data = None if method != "POST" else json.dumps(body or {}).encode()
        request = urllib.request.Request(self._address + path, data, method=method)
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                return json.load(answer)["value"]
        except urllib.error.HTTPError as error:
            raise AssertionError(json.load(error)["value"]["message"]) from None

    def size(self, width: int, height: int) -> None:
        """Set the size of what is displayed, pixels; narrower than a window can be, if need be."""
        self._call("POST", "/window/rect", {"width": width, "height": height})
        metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        command = {"cmd": "Emulation.setDeviceMetricsOverride", "params": metrics}
        self._call("POST", "/goog/cdp/execute", command)

    def open(self, page: Path) -> None:
        """Load a page."""
        self._call("POST", "/url", {"url": page.resolve().as_uri()})

    def visit(self, address: str) -> None:
        """Load what is at an address."""
        self._call("POST", "/url", {"url": address})

    def run(self, script: str) -> Any:
        """Return what a script returns."""
        return self._call("POST", "/execute/sync", {"script": script, "args": []})

    def _find(self, selector: str) -> str:
        found = self._call("POST", "/element", {"using": "css selector", "value": selector})
        return str(found[_ELEMENT])

    def click(self, selector: str) -> None:
        """Click an element."""
        self._call("POST", f"/element/{self._find(selector)}/click")

    def type(self, selector: str, keys: str) -> None:
        """Type keys while an element has the focus."""
        self._call("POST", f"/element/{self._find(selector)}/value", {"text": keys})

    def text(self, selector: str) -> str:
        """Return the text of an element as it is displayed."""
        return str(self._call("GET", f"/element/{self._find(selector)}/text"))

    def name(self, selector: str) -> str:
        """Return what a screen reader calls an element."""
        return str(self._call("GET", f"/element/{self._find(selector)}/computedlabel"))

    def errors(self) -> list[str]:
        """Return what the page's console has said."""
        log = self._call("POST", "/se/log", {"type": "browser"})
        return [str(entry["message"]) for entry in log]

    def screenshot(self, path: Path, selector: str | None = None) -> None:
        """Write a picture of what is displayed, or of an element."""
        inside = "" if selector is None else f"/element/{self._find(selector)}"
        path.write_bytes(base64.b64decode(self._call("GET", f"{inside}/screenshot")))

    def close(self) -> None:
        """End the session."""
        self._call("DELETE", "")


@contextmanager
def showing(page: Path, width: int = 1000, height: int = 900) -> Iterator[Browser]:
    """Start a browser for the block, with a page in a window of that size, pixels."""
    with browser() as session:
        session.size(width, height)
        session.open(page)
        yield session


@contextmanager
def browser() -> Iterator[Browser]:
    """Start the driver and a browser for the block; skip the test if they are missing."""
    reason = missing()
    if reason is not None:
        pytest.skip(reason)
    driver, port = _driver()
    try:
        session = Browser(f"http://127.0.0.1:{port}")
        try:
            yield session
        finally:
            session.close()
    finally:
        driver.terminate()
        driver.wait(10)


def _driver() -> tuple[subprocess.Popen[str], str]:
    """Start the driver; return it and its port.

    It ends if the port that it has got is taken in the other version of IP: another one is.
    """
    said: list[str] = []
    for _ in range(5):
        driver = subprocess.Popen(
            ["chromedriver", "--port=0"],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        assert driver.stdout is not None
        for line in driver.stdout:
            said.append(line)
            if found := re.search(r"on port (\d+)\.", line):
                return driver, found[1]
        driver.wait(10)
    raise RuntimeError(f"chromedriver does not start: {''.join(said)}")
