import io
import json
from pathlib import Path

from rich.console import Console

from emulation.display import warn_of_infidelity


def warning(folder: Path) -> str:
    shown = io.StringIO()
    warn_of_infidelity(Console(file=shown, width=40), folder)
    return shown.getvalue()


def test_a_run_that_lost_real_time_says_which_check_failed(tmp_path: Path) -> None:
    check = {"name": "frames late", "value": 25000, "limit": 10000, "unit": "µs", "advice": "rest"}
    passed = check | {"name": "fine", "ok": True}
    fidelity = {"kept_real_time": False, "checks": [check | {"ok": False}, passed]}
    (tmp_path / "fidelity.json").write_text(json.dumps(fidelity))
    assert "lost real time" in warning(tmp_path)
    assert "frames late: 25000 µs, at most 10000; rest" in warning(tmp_path)
    assert "fine" not in warning(tmp_path)


def test_a_run_that_kept_it_and_one_that_was_killed_say_nothing(tmp_path: Path) -> None:
    assert warning(tmp_path) == ""
    (tmp_path / "fidelity.json").write_text(json.dumps({"kept_real_time": True, "checks": []}))
    assert warning(tmp_path) == ""
