"""What the prompt's commands print."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from emulation.network import prompt


@pytest.mark.parametrize(("display", "missing"), [(":9", "xterm"), ("localhost:10.0", "socat")])
def test_a_terminal_that_cannot_open_is_refused(
    display: str, missing: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if missing == "socat":
        (tmp_path / "xterm").write_text("#!/bin/sh\n")
        (tmp_path / "xterm").chmod(0o755)
    monkeypatch.setenv("DISPLAY", display)
    monkeypatch.setenv("PATH", str(tmp_path))
    said: list[str] = []
    prompt.Prompt.do_xterm(SimpleNamespace(refuse=said.append), "sta1")  # type: ignore[arg-type]
    assert said == [f"{missing} is not installed: apt-get install {missing}"]


@pytest.mark.parametrize(
    ("share", "text"),
    [
        (0.0, "0 %"),
        (0.0123, "1.2 %"),
        (0.914, "91 %"),
        (0.9949, "99 %"),
        (0.996, "99.6 %"),
        (0.99999, "100 %"),
        (1.0, "100 %"),
    ],
)
def test_a_loss_has_two_digits_and_is_all_only_if_it_is(share: float, text: str) -> None:
    row = {"neighbour": "sta2", "loss": share}
    assert prompt.links([row]).splitlines()[-1].endswith(f"  {text}")
